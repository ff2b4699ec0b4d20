"""What registers hold where a condition holds that they were assigned under.

    @!P6 LEA R22, ...        R22 is an address where P6 is false
    P2R R12, PR, RZ, 0x40    R12 keeps P6
    ISETP.NE P0, R12, RZ     P0 is P6 again
    @!P0 LDG R28, [R22]      so R22 is an address here

A condition is known by the place where its predicate was computed. What is known has to be known on
every path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from k3decode.audit.program import Assignment, Form, Guard, Register
from k3decode.audit.value import Value, join

__all__ = ["GuardedValues"]

_Condition = tuple[int, str]
"""Index of the instruction that computed a predicate (or minus a block, less one), and its name."""


@dataclass
class GuardedValues:
    """Knowledge at one point of one path, or common to several."""

    conditions: dict[str, _Condition] = field(default_factory=dict)
    """Register -> the condition that it is true, or not zero, for."""
    values: dict[tuple[_Condition, bool], dict[str, Value]] = field(default_factory=dict)
    """Condition, and whether it is negated -> registers that were assigned under it."""

    def copy(self) -> "GuardedValues":
        """Independent of this one."""
        return GuardedValues(
            dict(self.conditions), {key: dict(known) for key, known in self.values.items()}
        )

    def merged(self, other: "GuardedValues") -> "GuardedValues":
        """What both know."""
        values = {
            key: {
                register: join(value, other.values[key][register])
                for register, value in known.items()
                if register in other.values[key]
            }
            for key, known in self.values.items()
            if key in other.values
        }
        same = self.conditions.items() & other.conditions.items()
        return GuardedValues(dict(same), {key: known for key, known in values.items() if known})

    def under(self, guard: Guard, block: int) -> Mapping[str, Value]:
        """Registers that were assigned under a guard."""
        return self.values.get(self._key(guard, block), {})

    def computed_at(self, predicate: str) -> int | None:
        """Index of the instruction that computed a predicate, where there is only one."""
        place = self.conditions.get(predicate)
        return place[0] if place is not None and place[0] >= 0 else None

    def assign(
        self, made: Sequence[tuple[Assignment, Value]], index: int, guard: Guard | None, block: int
    ) -> None:
        """An instruction writes registers."""
        written = {assignment.register for assignment, _ in made}
        kept = [self._kept(assignment) if guard is None else None for assignment, _ in made]
        for register in written:
            self.conditions.pop(register, None)
            for known in self.values.values():
                known.pop(register, None)
        for (assignment, value), copied in zip(made, kept, strict=True):
            place = (index, assignment.register)
            if copied is None:
                self._forget(place)
            self.conditions[assignment.register] = copied or place
            # Under a guard that changes itself nothing is known.
            if guard is not None and guard.register not in written:
                under = self.values.setdefault(self._key(guard, block), {})
                under[assignment.register] = value

    def _key(self, guard: Guard, block: int) -> tuple[_Condition, bool]:
        # Where paths met that computed it at different places, it is what it is in this block.
        unknown = (-1 - block, guard.register)
        return self.conditions.setdefault(guard.register, unknown), guard.negated

    def _kept(self, assignment: Assignment) -> _Condition | None:
        """The condition of a source that is only copied or tested."""
        copied = assignment.form is Form.SUM and not assignment.factors
        source = assignment.sources[0] if len(assignment.sources) == 1 else None
        if (copied or assignment.form is Form.FLAG) and isinstance(source, Register):
            return self.conditions.get(source.name)
        return None

    def _forget(self, condition: _Condition) -> None:
        """The place is reached again: what was known of its last result is of the past."""
        for negated in (False, True):
            self.values.pop((condition, negated), None)
        for register in [r for r, known in self.conditions.items() if known == condition]:
            del self.conditions[register]

"""What a plan pairs with what, and whether the plan can be judged at all.

The plan comes out of a bundle, so it may be anything that its record type allows: a slot listed
twice could let one boot stand for both arms.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from k3bundle.derive.sentences import quote
from k3bundle.plan import BootSlot, Plan
from k3bundle.schedule import DueCell, runs_in
from k3bundle.subject import ArmName, ArmSpec

__all__ = [
    "NullPair",
    "Pair",
    "arm",
    "arms_alike",
    "null_pairs",
    "pairs",
    "plan_problem",
    "slots",
    "slots_of",
]

_TWO = 2


@dataclass(frozen=True)
class Pair:
    """One baseline and one candidate slot that were run close in time."""

    number: int
    baseline: BootSlot
    candidate: BootSlot

    @property
    def order(self) -> int:
        """How many boots after the baseline the candidate came; negative when it came first."""
        return self.candidate.slot - self.baseline.slot


@dataclass(frozen=True)
class NullPair:
    """Two baseline slots that were run close in time."""

    number: int
    first: BootSlot
    second: BootSlot


def slots(plan: Plan) -> tuple[BootSlot, ...]:
    """The slots in order; of several entries for one slot, the first."""
    by_number: dict[int, BootSlot] = {}
    for boot in plan.boots:
        by_number.setdefault(boot.slot, boot)
    return tuple(by_number[number] for number in sorted(by_number))


def slots_of(plan: Plan, cell: DueCell) -> tuple[BootSlot, ...]:
    """The slots in which a cell is to run, in order."""
    return tuple(slot for slot in slots(plan) if runs_in(cell, slot))


def pairs(plan: Plan) -> tuple[Pair, ...]:
    """The complete pairs of one baseline and one candidate boot, by number."""
    found: list[Pair] = []
    for number, members in _members(plan):
        by_arm = {boot.arm: boot for boot in members}
        if members[0].role == "compare" and len(by_arm) == _TWO:
            found.append(Pair(number, by_arm["baseline"], by_arm["candidate"]))
    return tuple(found)


def null_pairs(plan: Plan) -> tuple[NullPair, ...]:
    """The complete A-A pairs, by number."""
    return tuple(
        NullPair(number, *members)
        for number, members in _members(plan)
        if members[0].role == "null" and all(boot.arm == "baseline" for boot in members)
    )


def _members(plan: Plan) -> Iterable[tuple[int, tuple[BootSlot, BootSlot]]]:
    """Two slots of one number, role and deployment, by number."""
    members: dict[int, list[BootSlot]] = {}
    for boot in slots(plan):
        members.setdefault(boot.pair, []).append(boot)
    for number in sorted(members):
        boots = members[number]
        if len(boots) == _TWO and len({(boot.role, boot.deployment) for boot in boots}) == 1:
            yield number, (boots[0], boots[1])


def arm(plan: Plan, name: ArmName) -> ArmSpec | None:
    """The arm of that name; None when the plan does not define it."""
    return next((spec for spec in plan.arms if spec.name == name), None)


def arms_alike(plan: Plan) -> bool:
    """Whether both arms are started the same way: an A-A run, which shows noise and no change."""
    baseline, candidate = arm(plan, "baseline"), arm(plan, "candidate")
    if plan.pairing != "paired" or baseline is None or candidate is None:
        return False
    return baseline == candidate.model_copy(update={"name": baseline.name})


def plan_problem(plan: Plan) -> str | None:
    """Say why no run of this plan can be judged.

    Returns:
        The first problem in a sentence; None when there is none.
    """
    twice = _first_duplicate(str(boot.slot) for boot in plan.boots)
    if twice is not None:
        return f"The plan names boot {twice} twice, so it is unknown which arm it stands for."
    twice = _first_duplicate(cell.cell_id for cell in plan.cells)
    if twice is not None:
        return f"The plan has two cells named {twice}."
    twice = _first_duplicate(spec.name for spec in plan.arms)
    if twice is not None:
        return f"The plan defines the {twice} arm twice."
    for boot in plan.boots:
        if arm(plan, boot.arm) is None:
            return f"Boot {boot.slot} is of the {boot.arm} arm, which the plan does not define."
    return _pairing_problem(plan) if plan.pairing == "paired" else None


def _pairing_problem(plan: Plan) -> str | None:
    complete = {pair.number for pair in pairs(plan)} | {pair.number for pair in null_pairs(plan)}
    for boot in plan.boots:
        if boot.pair not in complete:
            kind = "two baseline boots" if boot.role == "null" else "one baseline and one candidate"
            return f"Pair {boot.pair} of the plan is not {kind} of one deployment."
    baseline, candidate = arm(plan, "baseline"), arm(plan, "candidate")
    if arms_alike(plan):
        return None
    if baseline and candidate and baseline.expected_path == candidate.expected_path:
        path = quote(baseline.expected_path)
        return f"Both arms of the plan expect the path {path}, so coverage cannot tell them apart."
    return None


def _first_duplicate(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)

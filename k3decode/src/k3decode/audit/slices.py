"""What a test depends on, followed backwards: only on polled values, or also on giving up?

A loop that polls and counts its rounds, looks at a clock or reads another value that may change,
can be left without success; leaving it says nothing then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from k3decode.audit.dataflow import may_poll
from k3decode.audit.flow import Flow
from k3decode.audit.program import (
    Assignment,
    Event,
    Form,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Scalar,
)

__all__ = ["Slices"]

_Definition = tuple[int, int, Assignment]
"""Block, index of the instruction, and what it assigns."""


@dataclass(frozen=True)
class _Use:
    block: int
    before: int
    """Index of the instruction that reads the register."""
    register: str


class Slices:
    """Follows values backwards through the flow of one kernel."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._predecessors: dict[int, list[int]] = {}
        for block, successors in enumerate(flow.graph):
            for successor in successors:
                self._predecessors.setdefault(successor, []).append(block)

    def may_give_up(self, block: int, body: frozenset[int] | None = None) -> bool:
        """Whether the test at the end of a block also depends on what changes by itself.

        That is a count, a clock, and in a loop also what is read there and not polled.

        Args:
            block: the block that ends with the test.
            body: blocks to stay in; what comes from outside is the same in each round. None: all.
        """
        last = self._flow.blocks[block].last
        queue = [_Use(block, last, guard.register) for guard in self._flow.conditions(block)]
        seen: set[_Use] = set()
        while queue:
            use = queue.pop()
            if use in seen:
                continue
            seen.add(use)
            for definition in self._definitions(use, body):
                instruction = self._flow.kernel.instructions[definition[1]]
                if instruction.guard is not None:
                    queue.append(_Use(*definition[:2], instruction.guard.register))
                if may_poll(instruction) or instruction.event is Event.MBARRIER_TRY:
                    continue
                read_anew = body is not None and definition[2].form is Form.LOADED
                if read_anew or self._is_count(definition, body) or _reads_clock(definition[2]):
                    return True
                queue += [_Use(*definition[:2], name) for name in _registers(definition[2])]
        return False

    def _definitions(self, use: _Use, body: frozenset[int] | None) -> Iterator[_Definition]:
        """Assignments that can reach a use."""
        queue = [(use.block, use.before)]
        seen: set[int] = set()
        while queue:
            block, before = queue.pop()
            first = self._flow.blocks[block].first
            for index in range(before - 1, first - 1, -1):
                instruction = self._flow.kernel.instructions[index]
                made = _assignment(instruction, use.register)
                if made is not None:
                    yield block, index, made
                    if instruction.guard is None:
                        break
            else:
                for predecessor in self._predecessors.get(block, ()):
                    if predecessor not in seen and (body is None or predecessor in body):
                        seen.add(predecessor)
                        queue.append((predecessor, self._flow.blocks[predecessor].last + 1))

    def _is_count(self, definition: _Definition, body: frozenset[int] | None) -> bool:
        """Whether it adds a constant to what it made itself the last time."""
        block, index, assignment = definition
        steps = [s for s in assignment.sources if isinstance(s, Immediate) and s.value]
        if assignment.form is not Form.SUM or not steps:
            return False
        queue = [_Use(block, index, name) for name in _registers(assignment)]
        seen: set[_Use] = set()
        while queue:
            use = queue.pop()
            if use in seen:
                continue
            seen.add(use)
            for other in self._definitions(use, body):
                if other[1] == index:
                    return True
                if other[2].form is Form.SUM:
                    queue += [_Use(*other[:2], name) for name in _registers(other[2])]
        return False


def _assignment(instruction: Instruction, register: str) -> Assignment | None:
    return next((a for a in instruction.assignments if a.register == register), None)


def _operands(assignment: Assignment) -> tuple[Operand, ...]:
    return (*assignment.sources, *assignment.factors)


def _registers(assignment: Assignment) -> list[str]:
    found = []
    for operand in _operands(assignment):
        if isinstance(operand, Register):
            found.append(operand.name)
        elif isinstance(operand, Negated):
            found.append(operand.operand.name)
    return found


def _reads_clock(assignment: Assignment) -> bool:
    """Whether it reads what changes by itself; sizes and indices do not, but are never re-read."""
    return any(isinstance(operand, Scalar) for operand in _operands(assignment))

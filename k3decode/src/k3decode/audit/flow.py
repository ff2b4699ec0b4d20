"""Control flow of one thread: straight lines of instructions and the edges between them.

A subroutine is copied for each call, so that no path enters from one call and leaves to another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from k3decode.audit.program import Form, Guard, Immediate, Instruction, Jump, JumpKind, Kernel

__all__ = ["Block", "Edge", "Flow", "build_flow"]

_MAX_CALL_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a block may go on."""

    target: int
    when: bool | None
    """Whether the conditions of the block's jump hold on this edge; None: it says nothing."""


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that run one after the other."""

    first: int
    """Index of the first instruction."""
    last: int
    """Index of the last instruction."""
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class Flow:
    """Blocks of a kernel; block 0 is the entry."""

    kernel: Kernel
    blocks: tuple[Block, ...]
    problems: tuple[str, ...]
    """Sentences about jumps that could not be followed."""

    @property
    def graph(self) -> list[list[int]]:
        """Successors of each block."""
        return [[edge.target for edge in block.edges] for block in self.blocks]

    def instructions(self, block: int) -> Iterator[tuple[int, Instruction]]:
        """Index and instruction, in order."""
        chosen = self.blocks[block]
        for index in range(chosen.first, chosen.last + 1):
            yield index, self.kernel.instructions[index]

    def conditions(self, block: int) -> tuple[Guard, ...]:
        """What the jump at the end of a block tests."""
        jump = self.kernel.instructions[self.blocks[block].last].jump
        return () if jump is None else jump.conditions


_Calls = tuple[int, ...]
"""Indices of the calls that are open, the innermost last."""


@dataclass
class _Builder:
    kernel: Kernel
    starts: list[bool]
    numbers: dict[tuple[_Calls, int], int] = field(default_factory=dict)
    queue: list[tuple[_Calls, int]] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def number(self, calls: _Calls, index: int) -> int:
        key = (calls, index)
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.queue.append(key)
        return self.numbers[key]

    def problem(self, index: int, what: str) -> None:
        instruction = self.kernel.instructions[index]
        sentence = f"at {instruction.at:#x}, `{instruction.text}`: {what}"
        if sentence not in self.problems:
            self.problems.append(sentence)

    def add(self, calls: _Calls, first: int) -> None:
        last = first
        instructions = self.kernel.instructions
        while (
            instructions[last].jump is None
            and last + 1 < len(instructions)
            and not self.starts[last + 1]
        ):
            last += 1
        self.blocks[self.numbers[calls, first]] = Block(first, last, self._edges(calls, last))

    def _edges(self, calls: _Calls, last: int) -> tuple[Edge, ...]:
        jump = self.kernel.instructions[last].jump
        edges: list[Edge] = []
        if jump is not None:
            taken = True if jump.conditions and not jump.maybe else None
            edges += [Edge(block, taken) for block in self._targets(calls, last, jump)]
        if jump is None or jump.conditions or jump.maybe:
            if last + 1 < len(self.kernel.instructions):
                passed = False if jump is not None and jump.conditions and not jump.maybe else None
                edges.append(Edge(self.number(calls, last + 1), passed))
            else:
                self.problem(last, "expected an end of the kernel, found the end of the text")
        return tuple(edges)

    def _targets(self, calls: _Calls, last: int, jump: Jump) -> list[int]:
        if jump.kind is JumpKind.UNKNOWN:
            self.problem(last, "its target is not in the text")
        if jump.kind is JumpKind.RETURN and calls:
            back = self._return_point(calls[-1], jump.link)
            if back is None:
                self.problem(last, "it returns to an address that is no instruction")
                return []
            return [self.number(calls[:-1], back)]
        if jump.kind is JumpKind.CALL:
            if len(calls) == _MAX_CALL_DEPTH:
                self.problem(last, f"calls deeper than {_MAX_CALL_DEPTH}")
                return []
            calls = (*calls, last)
        if jump.kind not in {JumpKind.BRANCH, JumpKind.CALL}:
            return []
        found = []
        for target in jump.targets:
            index = self.kernel.labels.get(target)
            if index is None or index >= len(self.kernel.instructions):
                self.problem(last, f"its target {target} is not in the text")
            else:
                found.append(self.number(calls, index))
        return found

    def _return_point(self, call: int, link: str | None) -> int | None:
        """The instruction after a call, unless the link register was set to another one."""
        instructions = self.kernel.instructions
        for index in range(call - 1, -1, -1):
            for assignment in instructions[index].assignments:
                if assignment.register != link:
                    continue
                source = assignment.sources[0] if assignment.sources else None
                if assignment.form is Form.SUM and isinstance(source, Immediate):
                    return self._index_at(source.value)
                return call + 1
            if self.starts[index]:
                break
        return call + 1

    def _index_at(self, offset: int) -> int | None:
        for index, instruction in enumerate(self.kernel.instructions):
            if instruction.at == offset:
                return index
        return None


def build_flow(kernel: Kernel) -> Flow:
    """Blocks that a thread can reach."""
    starts = [False] * (len(kernel.instructions) + 1)
    builder = _Builder(kernel, starts)
    for index, instruction in enumerate(kernel.instructions):
        jump = instruction.jump
        if jump is None:
            continue
        starts[index + 1] |= jump.kind is JumpKind.CALL
        # A label that no jump names does not end a straight line.
        for target in jump.targets:
            starts[kernel.labels.get(target, len(kernel.instructions))] = True
    builder.number((), 0)
    while builder.queue:
        builder.add(*builder.queue.pop())
    blocks = tuple(builder.blocks[number] for number in range(len(builder.blocks)))
    return Flow(kernel, blocks, tuple(builder.problems))

"""Places where a thread has waited, and what it reaches without having been there."""

from dataclasses import dataclass, field

from k3decode.audit.flow import Flow

__all__ = ["Paths", "Polled", "Waits", "reach"]

_Place = tuple[int, int]
"""Block, and index of an instruction."""
_EdgeKey = tuple[int, int]
"""Block, and number of one of its edges."""


@dataclass
class Waits:
    """All places where a thread has waited."""

    at_entry: bool = False
    places: set[_Place] = field(default_factory=set)
    edges: set[_EdgeKey] = field(default_factory=set)
    polls: set[int] = field(default_factory=set)
    """Indices of loads that are a wait themselves."""


@dataclass(frozen=True)
class Polled:
    """Loads of memory that is declared to be written by nobody, or by other GPUs."""

    still: frozenset[int] = frozenset()
    """Indices of loads of static memory."""
    mailboxes: frozenset[int] = frozenset()
    """Indices of loads that may be of a mailbox."""


@dataclass(frozen=True)
class Paths:
    """What a thread can reach without having waited."""

    reached: frozenset[_Place]
    came_from: dict[int, int | None]
    """Block that can be entered without a wait -> the one before it."""

    def to(self, block: int) -> list[int]:
        """Blocks of one such path, from the entry."""
        path: list[int] = []
        at: int | None = block
        while at is not None:
            path.append(at)
            at = self.came_from[at]
        return path[::-1]


def reach(flow: Flow, waits: Waits, *, start: int = 0, without: int | None = None) -> Paths:
    """What is reached from a block without a wait, and without entering another one."""
    if waits.at_entry:
        return Paths(frozenset(), {})
    came_from: dict[int, int | None] = {start: None}
    reached: set[_Place] = set()
    queue = [start]
    while queue:
        block = queue.pop()
        if block == without:
            continue
        stopped = False
        for index, _ in flow.instructions(block):
            reached.add((block, index))
            if (block, index) in waits.places:
                stopped = True
                break
        if stopped:
            continue
        for number, edge in enumerate(flow.blocks[block].edges):
            if (block, number) not in waits.edges and edge.target not in came_from:
                came_from[edge.target] = block
                queue.append(edge.target)
    return Paths(frozenset(reached), came_from)

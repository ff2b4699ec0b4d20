"""Dominators and natural loops of a graph whose node 0 is the entry.

Iterative dominators over reverse postorder (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance
Algorithm", 2001).
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Dominance", "Loop", "natural_loops", "postorder"]

Graph = Sequence[Sequence[int]]
"""Successors of each node."""


@dataclass(frozen=True)
class Loop:
    """All nodes from which the header is reached again without leaving through it."""

    header: int
    body: frozenset[int]
    """With the header."""


class Dominance:
    """Immediate dominators of the nodes that the entry reaches."""

    def __init__(self, graph: Graph) -> None:
        order = postorder(graph)
        self._rank = {node: rank for rank, node in enumerate(order)}
        self._immediate: dict[int, int] = {0: 0}
        predecessors: dict[int, list[int]] = {node: [] for node in order}
        for node in order:
            for successor in graph[node]:
                predecessors[successor].append(node)
        changed = True
        while changed:
            changed = False
            for node in reversed(order):
                if node == 0:
                    continue
                known = [p for p in predecessors[node] if p in self._immediate]
                new = known[0]
                for other in known[1:]:
                    new = self._meet(new, other)
                if self._immediate.get(node) != new:
                    self._immediate[node] = new
                    changed = True
        self._spans = self._number()

    def _number(self) -> dict[int, tuple[int, int]]:
        """When a walk over the tree of dominators enters a node, and how far it gets below it."""
        below: dict[int, list[int]] = {}
        for node, closest in self._immediate.items():
            if node:
                below.setdefault(closest, []).append(node)
        entered: dict[int, int] = {}
        spans: dict[int, tuple[int, int]] = {}
        stack = [(0, False)]
        while stack:
            node, done = stack.pop()
            if done:
                spans[node] = (entered[node], len(entered))
            else:
                entered[node] = len(entered)
                stack.append((node, True))
                stack += [(child, False) for child in below.get(node, ())]
        return spans

    def _meet(self, one: int, other: int) -> int:
        while one != other:
            if self._rank[one] < self._rank[other]:
                one = self._immediate[one]
            else:
                other = self._immediate[other]
        return one

    def immediate(self, node: int) -> int:
        """The closest dominator; the entry is its own."""
        return self._immediate[node]

    def reached(self, node: int) -> bool:
        """Whether any path from the entry gets there."""
        return node in self._immediate

    def dominates(self, one: int, other: int) -> bool:
        """Whether every path from the entry to `other` passes `one`; both are reached."""
        first, end = self._spans[one]
        return first <= self._spans[other][0] < end


def postorder(graph: Graph) -> list[int]:
    """Nodes that the entry reaches, each after what it reaches first; the entry comes last."""
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(graph[0]))]
    while stack:
        node, successors = stack[-1]
        for successor in successors:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(graph[successor])))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def natural_loops(graph: Graph, dominance: Dominance) -> list[Loop]:
    """Loops, one for each header, smallest first; cycles with two entries are none."""
    predecessors: dict[int, list[int]] = {}
    bodies: dict[int, set[int]] = {}
    for node in range(len(graph)):
        if dominance.reached(node):
            for successor in graph[node]:
                predecessors.setdefault(successor, []).append(node)
    for header, sources in predecessors.items():
        stack = [node for node in sources if dominance.dominates(header, node)]
        if not stack:
            continue
        body = bodies.setdefault(header, {header})
        while stack:
            node = stack.pop()
            if node not in body:
                body.add(node)
                stack.extend(predecessors.get(node, ()))
    loops = [Loop(header, frozenset(body)) for header, body in bodies.items()]
    return sorted(loops, key=lambda loop: (len(loop.body), loop.header))

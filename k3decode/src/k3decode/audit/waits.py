"""Where a thread knows that it has waited: at an instruction, or on an edge out of a test.

- `griddepcontrol.wait` is a wait where it stands.
- A try-wait on an mbarrier is one on the edge where it has succeeded.
- A polling load (volatile, relaxed, acquire or atomic) is one on the edges that leave its loop by a
  test of what it loaded. A first load before the loop that is tested the same way belongs to it.
  A poll of what nobody writes is none, and neither is one of what this kernel itself wrote before
  it waited, unless other GPUs write there too: its CTAs then only wait for each other.
- When all threads of a CTA meet after some of them waited, all have.
"""

from collections.abc import Iterable, Iterator

from k3decode.audit.dataflow import Facts, may_poll
from k3decode.audit.dominance import Dominance, Loop, natural_loops
from k3decode.audit.flow import Flow
from k3decode.audit.paths import Paths, Polled, Waits, reach
from k3decode.audit.program import Event, Instruction
from k3decode.audit.slices import Slices
from k3decode.audit.value import Origin, Root, RootKind, Value

__all__ = ["find_waits"]

_Place = tuple[int, int]
"""Block, and index of an instruction."""
_EdgeKey = tuple[int, int]
"""Block, and number of one of its edges."""


def find_waits(
    flow: Flow, facts: Facts, polled: Polled, *, dependency: bool, at_entry: bool
) -> Waits:
    """All waits of a kernel.

    Args:
        flow: the kernel's paths.
        facts: values along them.
        polled: what is declared of the memory that loads lead to.
        dependency: whether `griddepcontrol.wait` counts; for mailboxes it does not.
        at_entry: whether the launch itself waited for all earlier kernels.
    """
    return _Finder(flow, facts, polled, dependency=dependency, at_entry=at_entry).find()


class _Finder:
    def __init__(
        self, flow: Flow, facts: Facts, polled: Polled, *, dependency: bool, at_entry: bool
    ) -> None:
        self._flow = flow
        self._facts = facts
        self._polled = polled
        self._before: list[list[int]] = [[] for _ in flow.blocks]
        for block, successors in enumerate(flow.graph):
            for successor in successors:
                self._before[successor].append(block)
        self._dependency = dependency
        self._waits = Waits(at_entry=at_entry)
        self._dominance = Dominance(flow.graph)
        self._loops = natural_loops(flow.graph, self._dominance)
        self._slices = Slices(flow)
        self._blocks = [b for b in range(len(flow.blocks)) if self._dominance.reached(b)]

    def find(self) -> Waits:
        waits = self._waits
        polls, tries = self._tested_edges()
        if self._dependency:
            waits.places.update(
                (block, index)
                for block, index, instruction in self._instructions()
                if instruction.event is Event.DEPENDENCY_WAIT and instruction.guard is None
            )
        waits.edges.update(key for key, _ in polls)
        own = self._own_signals({index for _, indices in polls for index in indices})
        waits.edges.difference_update(key for key, indices in polls if not indices - own)
        waits.polls.update(index for _, indices in polls for index in indices - own)
        # A barrier can pass on a wait that was found only after another barrier did.
        while self._pass_on(tries):
            pass
        return waits

    def _instructions(self) -> Iterator[tuple[int, int, Instruction]]:
        for block in self._blocks:
            for index, instruction in self._flow.instructions(block):
                yield block, index, instruction

    def _own_signals(self, polls: set[int]) -> set[int]:
        """Of the polls those of memory that this kernel writes before it has waited for others."""
        before = reach(self._flow, self._waits).reached
        # A poll that is an atomic operation writes nothing that it then waits for.
        written = [
            value
            for place, value in self._facts.targets.items()
            if place in before and place[1] not in polls
        ]
        return {
            index
            for (_, index), value in self._facts.addresses.items()
            if index in polls - self._polled.mailboxes
            and any(_may_overlap(value, target) for target in written)
        }

    def _pass_on(self, tries: list[tuple[_EdgeKey, frozenset[int]]]) -> bool:
        """Add waits that follow from the known ones; says whether there was one."""
        waits = self._waits
        before = len(waits.edges) + len(waits.places)
        if waits.at_entry:
            return False
        paths = reach(self._flow, waits)
        for key, indices in tries:
            if key not in waits.edges and self._carries(indices, paths):
                waits.edges.add(key)
        for block, index, instruction in self._instructions():
            if (
                instruction.event is Event.CTA_BARRIER
                and instruction.guard is None
                and (block, index) in paths.reached
                and self._some_thread_waited((block, index))
            ):
                waits.places.add((block, index))
        return len(waits.edges) + len(waits.places) > before

    def _carries(self, tries: frozenset[int], paths: Paths) -> bool:
        """Whether one of the arrivals that end the wait comes after a dependency wait.

        Arrivals on an mbarrier are code of the same kernel. Where there are none, it is nobody
        here who arrives, and the wait counts.
        """
        wanted = self._barriers(index for index in tries)
        arrivals = [
            (block, index)
            for block, index, instruction in self._instructions()
            if instruction.event is Event.MBARRIER_ARRIVE
            and _may_be_same(wanted, self._facts.barriers.get((block, index)))
        ]
        return not arrivals or any(place not in paths.reached for place in arrivals)

    def _barriers(self, indices: Iterable[int]) -> list[Value]:
        chosen = set(indices)
        return [value for (_, index), value in self._facts.barriers.items() if index in chosen]

    def _some_thread_waited(self, barrier: _Place) -> bool:
        """Whether at least one thread has waited when all meet.

        All ways to the barrier have to wait, except that of a branch on the thread's index one
        side is enough: some thread takes it. A way that never gets there does not matter, and
        passes nothing on.
        """
        leading = self._leading_to(barrier[0])
        waited = dict.fromkeys(self._blocks, True)
        changed = True
        while changed:
            changed = False
            for block in self._blocks:
                # A block without a way to the barrier stays as it is: nobody asks for it.
                if waited[block] and not self._waits_from(block, barrier, waited, leading):
                    waited[block] = False
                    changed = True
        return waited[0]

    def _leading_to(self, block: int) -> set[int]:
        """Blocks that have a way to a block, and itself."""
        found, queue = {block}, [block]
        while queue:
            target = queue.pop()
            for before in self._before[target]:
                if before not in found:
                    found.add(before)
                    queue.append(before)
        return found

    def _waits_from(
        self, block: int, barrier: _Place, waited: dict[int, bool], leading: set[int]
    ) -> bool:
        for index, _ in self._flow.instructions(block):
            if (block, index) == barrier:
                return False
            if (block, index) in self._waits.places:
                return True
        sides = [
            (block, number) in self._waits.edges or waited[edge.target]
            for number, edge in enumerate(self._flow.blocks[block].edges)
            if edge.target in leading
        ]
        return any(sides) if sides and self._splits_threads(block) else all(sides)

    def _splits_threads(self, block: int) -> bool:
        """Whether a block ends with a branch on the thread's index that leaves no loop."""
        condition = self._facts.conditions.get(block)
        if condition is None or condition.origins != {Origin.THREAD}:
            return False
        targets = [edge.target for edge in self._flow.blocks[block].edges]
        return all(
            len({target in loop.body for target in targets}) == 1
            for loop in self._loops
            if block in loop.body
        )

    def _tested_edges(
        self,
    ) -> tuple[
        list[tuple[_EdgeKey, frozenset[int]]],
        list[tuple[_EdgeKey, frozenset[int]]],
    ]:
        """Edges that follow a successful poll, and those that follow a successful try-wait."""
        polls: list[tuple[_EdgeKey, frozenset[int]]] = []
        tries: list[tuple[_EdgeKey, frozenset[int]]] = []
        for block in self._blocks:
            condition = self._facts.conditions.get(block)
            if condition is None:
                continue
            for number in range(len(self._flow.blocks[block].edges)):
                key = (block, number)
                succeeded = self._outcome(key, condition)
                if succeeded is None:
                    tested = self._tested(key, condition)
                    loads = frozenset(index for index in tested if self._is_poll(index))
                    if loads:
                        polls.append((key, loads))
                    succeeded = tested - loads
                if succeeded:
                    tries.append((key, succeeded))
        return polls, tries

    def _is_poll(self, index: int) -> bool:
        return may_poll(self._flow.kernel.instructions[index])

    def _outcome(self, key: _EdgeKey, condition: Value) -> frozenset[int] | None:
        """Try-waits whose success is what the edge means; None: it does not say it that plainly."""
        block, number = key
        guards = self._flow.conditions(block)
        certain = all(len(one.roots) == 1 and one.constant == 0 for one in condition.sums)
        if len(guards) != 1 or not certain:
            return None
        roots = condition.roots
        if any(root.kind is not RootKind.OUTCOME for root in roots):
            return None
        if self._flow.blocks[block].edges[number].when is guards[0].negated:
            return frozenset()
        return frozenset(int(root.key) for root in roots if isinstance(root.key, int))

    def _tested(self, key: _EdgeKey, condition: Value) -> frozenset[int]:
        """Polls and try-waits whose test the edge passes, by where it leads."""
        return (
            self._left_loops(key, condition)
            | self._before_loop(key, condition)
            | self._beside_dead_end(key, condition)
        ) - self._polled.still

    def _left_loops(self, key: _EdgeKey, condition: Value) -> frozenset[int]:
        """Polls and try-waits of loops that the edge leaves by testing their result."""
        block, number = key
        target = self._flow.blocks[block].edges[number].target
        found: set[int] = set()
        for loop in self._loops:
            if block in loop.body and target not in loop.body:
                tested = self._tested_in(loop, condition)
                if tested and not self._slices.may_give_up(block, loop.body):
                    found |= tested
        return frozenset(found)

    def _tested_in(self, loop: Loop, condition: Value) -> set[int]:
        return {
            index
            for inner in loop.body
            for index, _ in self._flow.instructions(inner)
            if index in condition.tokens
        }

    def _beside_dead_end(self, key: _EdgeKey, condition: Value) -> frozenset[int]:
        """Polls whose failure leads to the end of the kernel without another read."""
        block, number = key
        edges = self._flow.blocks[block].edges
        if len(self._flow.conditions(block)) != 1 or not condition.tokens:
            return frozenset()
        others = [edge.target for other, edge in enumerate(edges) if other != number]
        if self._reads(others) or self._slices.may_give_up(block):
            return frozenset()
        return condition.tokens

    def _reads(self, starts: list[int]) -> bool:
        """Whether global memory is read from any of the blocks on."""
        for start in starts:
            for block, index in reach(self._flow, Waits(), start=start).reached:
                if (block, index) in self._facts.addresses:
                    return True
        return False

    def _before_loop(self, key: _EdgeKey, condition: Value) -> frozenset[int]:
        """Polls that were tried once before their loop, where success goes around the loop."""
        block, number = key
        edges = self._flow.blocks[block].edges
        if len(edges) != 2 or not condition.tokens:  # noqa: PLR2004
            return frozenset()
        header = self._next_header(edges[1 - number].target)
        loop = next((one for one in self._loops if one.header == header), None)
        if loop is None or block in loop.body or edges[number].target in loop.body:
            return frozenset()
        inside = self._roots_of_polls(loop)
        return frozenset(
            index for index in condition.tokens if inside and self._roots(index) <= inside
        )

    def _next_header(self, block: int) -> int:
        """The block itself, or the one that it goes on to without a choice."""
        headers = {loop.header for loop in self._loops}
        seen = set()
        while block not in headers and block not in seen:
            seen.add(block)
            edges = self._flow.blocks[block].edges
            if len(edges) != 1:
                break
            block = edges[0].target
        return block

    def _roots_of_polls(self, loop: Loop) -> frozenset[Root]:
        """Roots that a loop polls, which it leaves by a test of."""
        found: set[Root] = set()
        for inner in loop.body:
            condition = self._facts.conditions.get(inner)
            leaves = any(e.target not in loop.body for e in self._flow.blocks[inner].edges)
            if condition is not None and leaves:
                for index in self._tested_in(loop, condition):
                    found |= self._roots(index)
        return frozenset(found)

    def _roots(self, index: int) -> frozenset[Root]:
        """What a poll or try-wait looks at; a try-wait without pointer looks at its mbarrier."""
        found: set[Root] = set()
        for facts in (self._facts.addresses, self._facts.barriers):
            for (_, at), value in facts.items():
                if at == index:
                    found |= value.roots or {Root(RootKind.SYMBOL, "mbarrier")}
        return frozenset(found)


def _may_be_same(wanted: list[Value], arrived: Value | None) -> bool:
    """Whether an arrival can be on one of the mbarriers; only known distances tell them apart."""
    if arrived is None or not wanted:
        return True
    return any(
        one.constant is None
        or other.constant is None
        or (one.constant == other.constant or one.roots != other.roots)
        for value in wanted
        for one in value.sums
        for other in arrived.sums
    )


def _may_overlap(one: Value, other: Value) -> bool:
    """Whether two addresses may be the same one; they begin with the same pointer then."""
    return any(
        a.roots & b.roots and (a.constant is None or b.constant is None or a.constant == b.constant)
        for a in one.sums
        for b in other.sums
    )

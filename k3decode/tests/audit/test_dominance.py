"""Dominators and loops, against their definitions on any graph."""

from hypothesis import given, settings
from hypothesis import strategies as st

from k3decode.audit.dominance import Dominance, natural_loops, postorder


@st.composite
def _graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 9))
    node = st.integers(0, count - 1)
    return [draw(st.lists(node, max_size=3, unique=True)) for _ in range(count)]


def _reached(graph: list[list[int]], without: int | None = None) -> set[int]:
    if without == 0:
        return set()
    seen = {0}
    queue = [0]
    while queue:
        for successor in graph[queue.pop()]:
            if successor not in seen and successor != without:
                seen.add(successor)
                queue.append(successor)
    return seen


@settings(deadline=None)
@given(_graphs())
def test_a_node_dominates_what_is_not_reached_without_it(graph: list[list[int]]) -> None:
    dominance = Dominance(graph)
    reached = _reached(graph)
    assert {node for node in range(len(graph)) if dominance.reached(node)} == reached
    for one in reached:
        cut_off = reached - _reached(graph, without=one)
        assert {other for other in reached if dominance.dominates(one, other)} == cut_off | {one}


@settings(deadline=None)
@given(_graphs())
def test_the_immediate_dominator_is_the_closest(graph: list[list[int]]) -> None:
    dominance = Dominance(graph)
    for node in _reached(graph) - {0}:
        closest = dominance.immediate(node)
        assert closest != node
        assert dominance.dominates(closest, node)
        for other in _reached(graph) - {node}:
            if dominance.dominates(other, node):
                assert dominance.dominates(other, closest)


@settings(deadline=None)
@given(_graphs())
def test_a_loop_is_what_gets_back_to_its_header_inside_it(graph: list[list[int]]) -> None:
    dominance = Dominance(graph)
    loops = natural_loops(graph, dominance)
    back = {
        successor
        for node in _reached(graph)
        for successor in graph[node]
        if dominance.dominates(successor, node)
    }
    assert {loop.header for loop in loops} == back
    assert [len(loop.body) for loop in loops] == sorted(len(loop.body) for loop in loops)
    for loop in loops:
        for node in loop.body:
            assert dominance.dominates(loop.header, node)
            inside = [[s for s in out if s in loop.body] for out in graph]
            assert loop.header in _from(inside, node)


def _from(graph: list[list[int]], start: int) -> set[int]:
    """What is reached by at least one step."""
    seen: set[int] = set()
    queue = [start]
    while queue:
        for successor in graph[queue.pop()]:
            if successor not in seen:
                seen.add(successor)
                queue.append(successor)
    return seen


@settings(deadline=None)
@given(_graphs())
def test_postorder_has_each_reached_node_once_and_the_entry_last(graph: list[list[int]]) -> None:
    order = postorder(graph)
    assert sorted(order) == sorted(_reached(graph))
    assert order[-1] == 0


def test_a_long_chain_does_not_run_out_of_stack() -> None:
    count = 5000
    graph = [[node + 1] for node in range(count)] + [[]]
    assert Dominance(graph).dominates(count // 2, count)
    assert natural_loops(graph, Dominance(graph)) == []

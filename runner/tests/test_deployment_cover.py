"""The fewest boots that serve all cells, against trying every set."""

from collections.abc import Iterator
from itertools import chain, combinations, product

from hypothesis import given
from hypothesis import strategies as st

from k3runner.deployment_cover import fewest_deployments

_NAMES = ("a", "b", "c", "d")
_PREFERENCE = {name: place for place, name in enumerate(_NAMES)}


def _subsets(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    sizes = range(len(names) + 1)
    return map(frozenset, chain.from_iterable(combinations(names, size) for size in sizes))


def _smallest(choices: tuple[frozenset[str], ...]) -> int:
    return min(
        len(chosen)
        for chosen in _subsets(_NAMES)
        if all(choice & chosen for choice in choices if choice)
    )


def test_every_plan_of_three_cells_and_four_deployments_has_the_fewest_boots() -> None:
    possible = tuple(_subsets(_NAMES))
    for choices in product(possible, repeat=3):
        chosen = fewest_deployments(choices, _PREFERENCE)
        assert len(chosen) == len(set(chosen)) == _smallest(choices)
        assert all(choice & set(chosen) for choice in choices if choice)


@given(st.lists(st.frozensets(st.sampled_from(_NAMES)), max_size=12))
def test_more_cells_never_need_more_than_the_fewest(choices: list[frozenset[str]]) -> None:
    assert len(fewest_deployments(choices, _PREFERENCE)) == _smallest(tuple(choices))


def test_of_equal_sets_the_one_that_the_subject_prefers_is_taken() -> None:
    choices = [frozenset("ab"), frozenset("bc"), frozenset("cd")]
    assert fewest_deployments(choices, _PREFERENCE) == ("a", "c")
    assert fewest_deployments(choices, {"d": 0, "c": 1, "b": 2, "a": 3}) == ("d", "b")


def test_nothing_to_serve_needs_nothing() -> None:
    assert fewest_deployments([], _PREFERENCE) == ()
    assert fewest_deployments([frozenset()], _PREFERENCE) == ()

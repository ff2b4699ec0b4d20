"""The fewest deployments whose boots serve all cells. Pure.

A backend is chosen when the engine starts, so every boot is a load of the weights: minutes for a
small model, most of an hour for a large one. Each deployment costs the same number of boots, so
the fewest boots are those of the fewest deployments.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

__all__ = ["fewest_deployments"]


def fewest_deployments(
    choices: Sequence[frozenset[str]], preference: Mapping[str, int]
) -> tuple[str, ...]:
    """Choose the smallest set of deployments that holds one of every cell's choices.

    Args:
        choices: For each cell, the deployments that can serve it; a cell without any is left out.
        preference: Deployment -> place in the subject's list. Of several smallest sets the one
            whose deployments stand first is taken.

    Returns:
        Names in the subject's order. The search is exact: it tries sets by size, which is cheap
        for the dozen deployments that a subject has.
    """
    # A cell whose choices include those of another cell is served whenever that one is.
    distinct = {choice for choice in choices if choice}
    needed = [one for one in distinct if not any(other < one for other in distinct)]
    names = sorted(set().union(*needed), key=lambda name: preference[name])
    for size in range(len(names) + 1):
        for candidate in combinations(names, size):
            if all(choice & set(candidate) for choice in needed):
                return candidate
    return tuple(names)

"""Percentiles of values that occur several times each.

    position = share x (N - 1), N = sum of the weights

The percentile is read at that position of the sorted values, each repeated as often as its weight
says, with linear interpolation between neighbours. Nothing is expanded, so ten million tokens in
ten thousand events cost ten thousand steps.
"""

from collections.abc import Iterable

__all__ = ["percentile", "weighted_percentile"]


def percentile(values: Iterable[float], share: float) -> float | None:
    """The percentile of plain values.

    Args:
        values: The values, in any order.
        share: Between 0 and 1; 0.9 is the 90th percentile.

    Returns:
        The percentile; None without values.
    """
    return weighted_percentile(((value, 1) for value in values), share)


def weighted_percentile(weighted: Iterable[tuple[float, int]], share: float) -> float | None:
    """The percentile of values with whole weights.

    Args:
        weighted: (value, weight) in any order; a weight of 0 or less does not count.
        share: Between 0 and 1.

    Returns:
        The percentile; None where no weight is above 0.
    """
    ordered = sorted((value, weight) for value, weight in weighted if weight > 0)
    total = sum(weight for _, weight in ordered)
    if total == 0:
        return None
    position = share * (total - 1)
    below = int(position)
    lower = _at(ordered, below)
    upper = _at(ordered, min(below + 1, total - 1))
    return lower + (upper - lower) * (position - below)


def _at(ordered: list[tuple[float, int]], position: int) -> float:
    for value, weight in ordered:
        if position < weight:
            return value
        position -= weight
    return ordered[-1][0]

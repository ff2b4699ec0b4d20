"""Which of many cells regressed, without a false alarm for each look.

Holm's step-down procedure: sort the p-values, multiply the i-th of m by m - i, and let none be
smaller than the one before. A cell regressed when its adjusted value is at most 1 - confidence, and
the probability that any of the named cells did not is at most that.
"""

from collections.abc import Mapping

__all__ = ["adjusted_p_values"]


def adjusted_p_values(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for the number of comparisons.

    Args:
        p_values: Name -> p-value.

    Returns:
        Name -> adjusted p-value, the smallest first; of equal ones, by name.
    """
    ordered = sorted(p_values.items(), key=lambda item: (item[1], item[0]))
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, value) in enumerate(ordered):
        largest = max(largest, min(1.0, value * (len(ordered) - rank)))
        adjusted[name] = largest
    return adjusted

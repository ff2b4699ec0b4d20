"""When an engine is warm: its latest rounds of warm-up take equally long. Pure.

The first requests compile kernels, capture graphs and fill pools; how many do is not known before.
So warm-up goes on until the last rounds agree, and the first round is never part of the agreement.
"""

import statistics
from collections.abc import Sequence

__all__ = ["AGREEING_ROUNDS", "is_steady"]

AGREEING_ROUNDS = 3
"""Rounds that must agree."""
_TOLERANCE = 0.1
"""Largest relative distance of one of them from their median."""


def is_steady(rounds_ms: Sequence[float]) -> bool:
    """Whether the last rounds agree.

    Args:
        rounds_ms: Latency of each round of warm-up, in order.

    Returns:
        True when the last three are within 10 % of their median and the first is not among them.
    """
    last = rounds_ms[1:][-AGREEING_ROUNDS:]
    if len(last) < AGREEING_ROUNDS:
        return False
    middle = statistics.median(last)
    return all(abs(value - middle) <= _TOLERANCE * middle for value in last)

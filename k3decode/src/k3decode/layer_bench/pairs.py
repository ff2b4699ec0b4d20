"""Time per layer from pairs of replays: a deep stack minus a shallow one. Pure, no tensors here."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["PerLayer", "median_interval", "per_layer_us"]

# 95 % of a normal distribution: the ranks between which a median lies.
_WIDTH = 1.96


@dataclass(frozen=True)
class PerLayer:
    """Microseconds of one layer of the mix."""

    median_us: float
    low_us: float
    high_us: float
    """Between them the true median lies with a probability of 95 %."""


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Order statistics that enclose the median with a probability of about 95 %.

    Raises:
        ValueError: fewer than six values, which enclose nothing so surely.
    """
    count = len(values)
    if count < 6:  # noqa: PLR2004
        raise ValueError(f"expected at least six values for an interval, found {count}")
    ordered = sorted(values)
    half = _WIDTH * math.sqrt(count) / 2
    low = max(math.floor(count / 2 - half), 0)
    high = min(math.ceil(count / 2 + half), count - 1)
    return ordered[low], ordered[high]


def per_layer_us(deep: Sequence[float], shallow: Sequence[float], layers: int) -> PerLayer:
    """Difference of paired replays, divided by the layers between the two depths.

    Args:
        deep: replays of the deep stack, microseconds.
        shallow: replays of the shallow stack, each run beside the deep one of the same place.
        layers: how many more the deep stack has.
    """
    differences = [(d - s) / layers for d, s in zip(deep, shallow, strict=True)]
    low, high = median_interval(differences)
    return PerLayer(statistics.median(differences), low, high)

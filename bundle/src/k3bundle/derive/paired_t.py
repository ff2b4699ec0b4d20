"""Estimates of a ratio from pairs of boots, for one plan or for many at once.

A pair gives d = log(candidate / baseline). Plain, with n pairs, mean m and standard deviation s:

    estimate = m        standard error = s / sqrt(n)        degrees of freedom = n - 1

With drift, d_i = r + b * o_i + noise, where o_i says how many boots after the baseline the
candidate of the pair came. Least squares gives r and the drift b for a boot, with n - 2 degrees of
freedom:

    S = sum (o_i - mean o)^2        b = sum (o_i - mean o) * d_i / S        r = m - b * mean o
    standard error = s * sqrt(1 / n + (mean o)^2 / S), s from the residuals

All functions take arrays whose last axis is the pairs, so a simulation of thousands of plans runs
through the lines that judge one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from k3bundle.derive.noncentral_t import noncentrality, t_quantile

__all__ = ["FewPairsError", "Floats", "PairedEstimate", "bounds", "detectable_log", "estimate"]

Floats = npt.NDArray[np.float64]

_LEAST_FOR_DRIFT: Final = 3
_LEAST: Final = 2
_MOST_DEGREES: Final = 200
"""Beyond, the t distribution moves the effect by less than a part in a thousand."""


class FewPairsError(ValueError):
    """Fewer than two pairs have no spread."""


@dataclass(frozen=True)
class PairedEstimate:
    """Estimates in log points; arrays over plans."""

    mean: Floats
    """Estimate of the log ratio."""
    error: Floats
    """Standard error of the mean."""
    spread: Floats
    """Standard deviation of one pair."""
    drift: Floats | None
    """Drift for one boot; None where it was not estimated."""
    drift_error: Floats | None
    """Standard error of the drift."""
    degrees: int
    """Degrees of freedom of the spread."""


def estimate(logs: Floats, orders: Sequence[int] | None = None) -> PairedEstimate:
    """Estimate the log ratio.

    Args:
        logs: [..., n] log ratios of the pairs.
        orders: [n] boots from the baseline to the candidate of each pair, to estimate a drift with
            it; None estimates none. Fewer than three pairs, or pairs that are all in one order,
            cannot tell a drift from a ratio, and then none is estimated.

    Raises:
        FewPairsError: There are fewer than two pairs.
    """
    count = logs.shape[-1]
    if count < _LEAST:
        raise FewPairsError(f"Expected at least two pairs, found {count}.")
    middle: Floats = np.mean(logs, axis=-1)
    centred = logs - middle[..., None]
    if orders is None or count < _LEAST_FOR_DRIFT or len(set(orders)) == 1:
        spread = np.sqrt(np.sum(centred**2, axis=-1) / (count - 1))
        return PairedEstimate(middle, spread / np.sqrt(count), spread, None, None, count - 1)
    order = np.asarray(orders, dtype=np.float64)
    offset = order - np.mean(order)
    square = float(np.sum(offset**2))
    drift: Floats = np.sum(offset * centred, axis=-1) / square
    residual = centred - drift[..., None] * offset
    spread = np.sqrt(np.sum(residual**2, axis=-1) / (count - 2))
    width = np.sqrt(1 / count + np.mean(order) ** 2 / square)
    mean = middle - drift * np.mean(order)
    drift_error = spread / np.sqrt(square)
    return PairedEstimate(mean, spread * width, spread, drift, drift_error, count - 2)


def bounds(found: PairedEstimate, confidence: float) -> tuple[Floats, Floats]:
    """One-sided lower and upper bounds of the log ratio.

    Args:
        found: The estimate.
        confidence: One-sided confidence of each bound, above 0.5 and below 1.
    """
    # 0 times an infinite quantile would be no number.
    half = np.where(found.error > 0, t_quantile(found.degrees, confidence) * found.error, 0.0)
    return found.mean - half, found.mean + half


def detectable_log(found: PairedEstimate, confidence: float) -> Floats:
    """Smallest true log ratio at which the lower bound exceeds 0 with power 0.8."""
    effect: Floats = noncentrality(min(found.degrees, _MOST_DEGREES), confidence) * found.error
    return effect

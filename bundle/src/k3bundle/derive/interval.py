"""Ratios over pairs of boots, with one-sided t bounds and the smallest effect they would find.

A pair of boots is the unit of replication; requests inside a boot are correlated. With n pairs,
d_i = log(candidate_i / baseline_i), mean m and standard deviation s:

    ratio = exp(m)        bounds = exp(m -+ t(confidence, n - 1) * s / sqrt(n))

The minimum detectable effect is the true gain at which the lower bound exceeds 1 with power 0.8,
from the noncentral t distribution.
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from scipy import special

from k3bundle.verdict import RatioInterval

__all__ = ["POWER", "Metric", "noncentral_t_power", "ratio_interval"]

Metric = Literal["output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50"]

POWER: Final = 0.8
"""Power at which the minimum detectable effect is stated."""

_LARGEST_LOG: Final = 700.0
"""exp of more overflows a double. Only absurd records come near."""
_MOST_DEGREES: Final = 200
"""Beyond, the t distribution moves the effect by less than a part in a thousand."""
_STEPS: Final = 800
_TAIL: Final = 9.0
"""Standard deviations after which the normal density is below 1e-17."""


def ratio_interval(
    metric: Metric, value_pairs: Sequence[tuple[float, float]], *, confidence: float
) -> RatioInterval | None:
    """Candidate / baseline over pairs of boots.

    Args:
        metric: Which number is compared.
        value_pairs: (baseline, candidate) of each pair; a pair with a value of 0 is left out.
        confidence: One-sided confidence of each bound, above 0.5 and below 1.

    Returns:
        The interval; None when no pair has two positive values. Numbers are rounded to ten
        significant digits, so that they are the same on every machine.
    """
    logs = [math.log(c) - math.log(b) for b, c in value_pairs if b > 0 and c > 0]
    if not logs:
        return None
    count = len(logs)
    mean = math.fsum(logs) / count
    if count == 1:
        return RatioInterval(
            metric=metric,
            pairs=1,
            ratio=_exp(mean),
            confidence=confidence,
            minimum_detectable_effect=None,
        )
    spread = statistics.stdev(logs, xbar=mean)
    error = spread / math.sqrt(count)
    half_width = _t_quantile(count - 1, confidence) * error if error > 0 else 0.0
    effect = _noncentrality(min(count - 1, _MOST_DEGREES), confidence) * error
    return RatioInterval(
        metric=metric,
        pairs=count,
        ratio=_exp(mean),
        lower=_exp(mean - half_width),
        upper=_exp(mean + half_width),
        confidence=confidence,
        minimum_detectable_effect=_rounded(math.expm1(min(effect, _LARGEST_LOG))),
    )


def noncentral_t_power(degrees: int, critical: float, noncentrality: float) -> float:
    """Probability that a noncentral t variable exceeds a positive critical value.

    With Z standard normal and V chi-squared, t = (Z + noncentrality) / sqrt(V / degrees), so the
    probability is the integral of the normal density at z times
    P(V < degrees * ((z + noncentrality) / critical)^2), by Simpson's rule where z exceeds
    -noncentrality. The work is bounded for every input, which a library root finder's is not.
    """
    low = max(-noncentrality, -_TAIL)
    step = (_TAIL - low) / _STEPS

    def term(i: int) -> float:
        z = low + i * step
        weight = 1 if i in (0, _STEPS) else 4 if i % 2 else 2
        below = special.chdtr(degrees, degrees * ((z + noncentrality) / critical) ** 2)
        return weight * math.exp(-z * z / 2) * float(below)

    return math.fsum(term(i) for i in range(_STEPS + 1)) * step / 3 / math.sqrt(2 * math.pi)


@lru_cache(maxsize=256)
def _noncentrality(degrees: int, confidence: float) -> float:
    """Noncentrality at which the one-sided t test has the stated power, by bisection."""
    critical = _t_quantile(degrees, confidence)
    low, high = 0.0, critical * 2 + _TAIL
    while noncentral_t_power(degrees, critical, high) < POWER:
        low, high = high, high * 2
    while high - low > high * 1e-12:
        middle = (low + high) / 2
        if noncentral_t_power(degrees, critical, middle) < POWER:
            low = middle
        else:
            high = middle
    return high


def _t_quantile(degrees: int, confidence: float) -> float:
    # A confidence a hair above one half has a quantile that rounds to 0.
    return max(float(special.stdtrit(degrees, confidence)), 1e-12)


def _exp(exponent: float) -> float:
    return _rounded(math.exp(max(-_LARGEST_LOG, min(_LARGEST_LOG, exponent))))


def _rounded(value: float) -> float:
    return float(f"{value:.10g}")

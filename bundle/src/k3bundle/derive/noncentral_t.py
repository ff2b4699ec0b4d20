"""Quantiles and power of the t test, with work that is bounded for every input."""

import math
from functools import lru_cache
from typing import Final

from scipy import special

__all__ = ["POWER", "noncentral_t_power", "noncentrality", "t_probability", "t_quantile"]

POWER: Final = 0.8
"""Power at which the minimum detectable effect is stated."""

_STEPS: Final = 800
_TAIL: Final = 9.0
"""Standard deviations after which the normal density is below 1e-17."""


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
def noncentrality(degrees: int, confidence: float) -> float:
    """Noncentrality at which the one-sided t test has the stated power, by bisection."""
    critical = t_quantile(degrees, confidence)
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


def t_quantile(degrees: int, confidence: float) -> float:
    """Quantile of the t distribution, for a confidence above one half."""
    # A confidence a hair above one half has a quantile that rounds to 0.
    return max(float(special.stdtrit(degrees, confidence)), 1e-12)


def t_probability(degrees: int, value: float) -> float:
    """Probability that a t variable is at most a value."""
    return float(special.stdtr(degrees, value))

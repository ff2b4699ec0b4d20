"""Ratios over pairs of boots, with one-sided t bounds and the smallest effect they would find.

A pair of boots is the unit of replication; requests inside a boot are correlated. The estimate is
that of `paired_t`; bounds = exp(estimate -+ t(confidence, degrees) * standard error). The minimum
detectable effect is the true gain at which the lower bound exceeds 1 with power 0.8, from the
noncentral t distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from k3bundle.derive.noncentral_t import t_probability
from k3bundle.derive.paired_t import PairedEstimate, bounds, detectable_log, estimate
from k3bundle.verdict import RatioInterval

__all__ = ["Metric", "PairValue", "pair_estimate", "ratio_interval", "rounded", "safe_exp"]

Metric = Literal["output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50"]

_LARGEST_LOG: Final = 700.0
"""exp of more overflows a double. Only absurd records come near."""
_LEAST_PAIRS: Final = 2


@dataclass(frozen=True)
class PairValue:
    """One number in both boots of a pair."""

    baseline: float
    candidate: float
    order: int = 1
    """How many boots after the baseline the candidate came; negative when it came first."""


def ratio_interval(
    metric: Metric,
    values: Sequence[PairValue],
    *,
    confidence: float,
    drift_adjusted: bool = False,
) -> RatioInterval | None:
    """Candidate / baseline over pairs of boots.

    Args:
        metric: Which number is compared.
        values: The number in each pair; a pair with a value of 0 is left out.
        confidence: One-sided confidence of each bound, above 0.5 and below 1.
        drift_adjusted: Whether a linear drift over boots is estimated with the ratio.

    Returns:
        The interval; None when no pair has two positive values. Numbers are rounded to ten
        significant digits, so that they are the same on every machine.
    """
    logs = _logs(values)
    if not logs:
        return None
    found = pair_estimate(values, drift_adjusted=drift_adjusted)
    if found is None:
        return RatioInterval(
            metric=metric,
            pairs=1,
            ratio=safe_exp(logs[0]),
            confidence=confidence,
            minimum_detectable_effect=None,
        )
    lower, upper = bounds(found, confidence)
    effect = min(float(detectable_log(found, confidence)), _LARGEST_LOG)
    return RatioInterval(
        metric=metric,
        pairs=len(logs),
        ratio=safe_exp(float(found.mean)),
        lower=safe_exp(float(lower)),
        upper=safe_exp(float(upper)),
        confidence=confidence,
        degrees_of_freedom=found.degrees,
        drift_per_boot=None if found.drift is None else _relative(float(found.drift)),
        slower_p_value=_slower(found),
        minimum_detectable_effect=rounded(math.expm1(effect)),
    )


def pair_estimate(
    values: Sequence[PairValue], *, drift_adjusted: bool = False
) -> PairedEstimate | None:
    """The estimate behind the interval; None with fewer than two usable pairs."""
    logs = _logs(values)
    if len(logs) < _LEAST_PAIRS:
        return None
    orders = [value.order for value in values if value.baseline > 0 and value.candidate > 0]
    return estimate(np.array(logs), orders if drift_adjusted else None)


def _logs(values: Sequence[PairValue]) -> list[float]:
    return [
        math.log(value.candidate) - math.log(value.baseline)
        for value in values
        if value.baseline > 0 and value.candidate > 0
    ]


def _slower(found: PairedEstimate) -> float:
    """Probability of an estimate this low where the arms are equally fast."""
    mean, error = float(found.mean), float(found.error)
    if error == 0:
        return 0.0 if mean < 0 else 1.0
    return rounded(t_probability(found.degrees, mean / error))


def _relative(log: float) -> float:
    return rounded(math.expm1(max(-_LARGEST_LOG, min(_LARGEST_LOG, log))))


def safe_exp(exponent: float) -> float:
    """exp, within what a record can hold, rounded."""
    return rounded(math.exp(max(-_LARGEST_LOG, min(_LARGEST_LOG, exponent))))


def rounded(value: float) -> float:
    """Ten significant digits."""
    return float(f"{value:.10g}")

"""Thousands of simulated plans, judged by the functions that judge one.

A boot's log throughput is noise of standard deviation `spread / sqrt(2)`, so that a pair has the
spread, plus `drift` for each boot before it, plus the true effect in candidate boots. Boots stand
in A-B-B-A blocks; an odd number of pairs ends with half a block. Nothing in here was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from k3bundle.derive.holm import adjusted_p_values
from k3bundle.derive.noncentral_t import t_probability, t_quantile
from k3bundle.derive.paired_t import Floats, bounds, detectable_log, estimate

__all__ = [
    "CONFIDENCE",
    "Rates",
    "Row",
    "false_alarms",
    "noisy_null_share",
    "orders",
    "rates",
    "simulated_logs",
]

CONFIDENCE: Final = 0.95
_SEED: Final = 20_260_102


@dataclass(frozen=True)
class Row:
    """One kind of plan."""

    pairs: int
    """Pairs of boots."""
    spread: float
    """Standard deviation of the log ratio of a pair."""
    drift: float = 0.0
    """Log change of throughput from one boot to the next."""
    drift_adjusted: bool = False
    """Whether the plan takes a drift out."""


@dataclass(frozen=True)
class Rates:
    """What happened over the simulated plans of a row."""

    false_pass: float
    """Share of plans without an effect whose lower bound is above 1."""
    false_fail: float
    """Share of plans without an effect whose upper bound is below 1."""
    printed_effect: float
    """Relative gain that the plans print as detectable; root mean square in log points."""
    printed_effect_p10: float
    """Tenth percentile of the printed gain: with few pairs one plan's own print is far off."""
    printed_effect_p90: float
    """Ninetieth percentile."""
    power: float
    """Share of plans with that gain whose lower bound is above 1."""


def orders(pairs: int) -> tuple[int, ...]:
    """Boots from the baseline to the candidate of each pair, in A-B-B-A blocks."""
    return tuple(1 if pair % 2 == 0 else -1 for pair in range(pairs))


def simulated_logs(row: Row, plans: int, effect: float, *, stream: int) -> Floats:
    """Log ratios of the pairs.

    Args:
        row: Kind of plan.
        plans: How many plans.
        effect: True log ratio.
        stream: Number of the stream of random numbers; equal numbers give equal noise.

    Returns:
        [plans, pairs] log ratios.
    """
    random = np.random.default_rng((_SEED, row.pairs, stream))
    noise = random.standard_normal((plans, row.pairs, 2)) * row.spread / np.sqrt(2)
    order = np.asarray(orders(row.pairs), dtype=np.float64)
    first = 2.0 * np.arange(row.pairs)
    baseline = noise[..., 0] + row.drift * (first + (order < 0))
    candidate = noise[..., 1] + row.drift * (first + (order > 0)) + effect
    logs: Floats = candidate - baseline
    return logs


def rates(row: Row, plans: int) -> Rates:
    """False PASS without an effect, and power at the effect that the plans print."""
    adjusted = orders(row.pairs) if row.drift_adjusted else None
    still = estimate(simulated_logs(row, plans, 0.0, stream=0), adjusted)
    lower, upper = bounds(still, CONFIDENCE)
    printed = detectable_log(still, CONFIDENCE)
    effect = float(np.sqrt(np.mean(printed**2)))
    moved = estimate(simulated_logs(row, plans, effect, stream=1), adjusted)
    found, _ = bounds(moved, CONFIDENCE)
    low, high = (float(value) for value in np.quantile(printed, (0.1, 0.9)))
    return Rates(
        false_pass=float(np.mean(lower > 0)),
        false_fail=float(np.mean(upper < 0)),
        printed_effect=float(np.expm1(effect)),
        printed_effect_p10=float(np.expm1(low)),
        printed_effect_p90=float(np.expm1(high)),
        power=float(np.mean(found > 0)),
    )


def noisy_null_share(row: Row, plans: int, looks: int) -> float:
    """Share of runs without any trouble of which a null pair is called noisy in some cell.

    Args:
        row: Kind of plan; without drift.
        plans: How many runs.
        looks: Cells that look at one null pair each, with noise of their own.
    """
    noisy = np.zeros(plans, dtype=bool)
    share = (1 - CONFIDENCE) / (2 * looks)
    for cell in range(looks):
        found = estimate(simulated_logs(row, plans, 0.0, stream=10 + 2 * cell))
        null = simulated_logs(Row(1, row.spread), plans, 0.0, stream=11 + 2 * cell)[:, 0]
        noisy |= np.abs(null) > t_quantile(found.degrees, 1 - share) * found.spread
    return float(np.mean(noisy))


def false_alarms(row: Row, plans: int, cells: int) -> tuple[float, float]:
    """Share of runs without an effect in which some cell is called slower.

    Returns:
        By each cell's own p-value, and after Holm's adjustment.
    """
    p_values: list[Sequence[float]] = []
    for cell in range(cells):
        found = estimate(simulated_logs(row, plans, 0.0, stream=1000 + cell))
        t_values = found.mean / found.error
        p_values.append([t_probability(found.degrees, float(t)) for t in t_values])
    plain = adjusted = 0
    for values in zip(*p_values, strict=True):
        plain += min(values) <= 1 - CONFIDENCE
        named = {str(cell): value for cell, value in enumerate(values)}
        adjusted += min(adjusted_p_values(named).values()) <= 1 - CONFIDENCE
    return plain / plans, adjusted / plans

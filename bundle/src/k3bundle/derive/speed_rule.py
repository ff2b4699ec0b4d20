"""Is a serving cell fast enough? The bounds of its throughput ratio against its declared threshold.

PASS when the lower bound is above the threshold, FAIL when the upper bound is below it, else
INCONCLUSIVE: an interval that holds the threshold decides nothing, whatever its middle is.
"""

from typing import Literal

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.null_pairs import null_problem
from k3bundle.derive.sentences import gain, percent, plain, quote, ratio
from k3bundle.gates import Gates
from k3bundle.plan import ServingCell
from k3bundle.speed_role import NonInferiority, Superiority
from k3bundle.verdict import (
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    RatioInterval,
    ServingEvidence,
)

__all__ = ["decide", "interval_words", "judge_speed", "speed_threshold", "throughput"]


def decide(lower: float, upper: float, threshold: float) -> Literal["PASS", "FAIL", "INCONCLUSIVE"]:
    """Decide by the bounds alone."""
    if lower > threshold:
        return "PASS"
    return "FAIL" if upper < threshold else "INCONCLUSIVE"


def speed_threshold(role: Superiority | NonInferiority, gates: Gates) -> float:
    """The ratio that the bounds are held against."""
    if role.kind == "superiority":
        return gates.minimum_speed_ratio
    return 1 - (gates.non_inferiority_margin if role.margin is None else role.margin)


def judge_speed(
    context: CellContext, cell: ServingCell, evidence: ServingEvidence
) -> CellPass | CellFail | CellInconclusive | CellInvalid:
    """Judge the speed of a cell whose numbers are what was to be measured."""
    noisy = null_problem(evidence.null)
    if noisy is not None:
        return context.invalid(noisy, evidence)
    interval = throughput(evidence)
    if interval is None or interval.pairs != len(context.pairs):
        return context.inconclusive("Throughput is not defined in every pair of boots.", evidence)
    return _judge_interval(context, cell, evidence, interval)


def _judge_interval(
    context: CellContext, cell: ServingCell, evidence: ServingEvidence, interval: RatioInterval
) -> CellPass | CellFail | CellInconclusive:
    found = interval_words(interval)
    if cell.speed.kind == "excused":
        why = quote(cell.speed.reason)
        return context.passed(f"{found}; excused from being faster: {why}.", evidence)
    if interval.lower is None or interval.upper is None:
        return context.inconclusive(f"{found}.", evidence)
    threshold = speed_threshold(cell.speed, context.plan.gates)
    limit = ratio(threshold)
    match decide(interval.lower, interval.upper, threshold):
        case "PASS":
            return context.passed(f"{found}; the lower bound exceeds {limit}.", evidence)
        case "FAIL":
            return context.failed(f"{found}; the upper bound is below {limit}.", evidence)
        case _:
            return context.inconclusive(f"{found}; the bounds hold {limit}.", evidence)


def throughput(evidence: ServingEvidence) -> RatioInterval | None:
    """The interval that is judged."""
    return next((i for i in evidence.intervals if i.metric == "output_tokens_per_s"), None)


def interval_words(interval: RatioInterval) -> str:
    """An interval in words, always with the smallest effect that it would find."""
    pairs = f"{interval.pairs} pair{'' if interval.pairs == 1 else 's'}"
    words = f"Throughput candidate / baseline {ratio(interval.ratio)} over {pairs}"
    effect = interval.minimum_detectable_effect
    if interval.lower is None or interval.upper is None or effect is None:
        return f"{words}; one pair gives no bounds and would find no gain of any size"
    bounds = f"one-sided {percent(interval.confidence)} bounds"
    words = f"{words}, {bounds} {ratio(interval.lower)} and {ratio(interval.upper)}"
    if interval.drift_per_boot is not None:
        words += f", a drift of {plain(interval.drift_per_boot * 100)} % a boot taken out"
    return f"{words}; the smallest gain this would find is {gain(effect)}"

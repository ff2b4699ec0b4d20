"""The rule of a serving cell: are its numbers what was to be measured, and is it fast enough?"""

import statistics
from collections.abc import Sequence
from typing import Final

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.interval import Metric, ratio_interval
from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3bundle.derive.prefix_cache import PrefixCacheReading, read_prefix_cache
from k3bundle.derive.problem import Problem
from k3bundle.derive.requests_check import length_problem, measured_requests
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import milliseconds, percent, ratio
from k3bundle.plan import Gates, ServingCell
from k3bundle.request import RequestRecord
from k3bundle.verdict import (
    BootMeasurement,
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    RatioInterval,
    ServingEvidence,
)

__all__ = ["judge_serving", "measure"]

_METRICS: Final[tuple[Metric, ...]] = ("output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50")


def judge_serving(
    context: CellContext, cell: ServingCell
) -> CellPass | CellFail | CellInconclusive | CellInvalid:
    """Judge one serving cell.

    Speed gates the cell only where the plan's tier claims speed; elsewhere it is reported.
    """
    measured = [measured_requests(boot) for boot in context.boots]
    boots = tuple(measure(b, m) for b, m in zip(context.boots, measured, strict=True))
    prefix = [read_prefix_cache(b, m) for b, m in zip(context.boots, measured, strict=True)]
    rates = [reading.hit_rate for reading in prefix if reading.hit_rate is not None]
    evidence = ServingEvidence(
        boots=boots,
        intervals=_intervals(context, boots),
        prefix_hit_rate=max(rates, default=None),
    )
    problem = (
        context.missing(cell)
        or _failed_requests(boots, context.plan.gates)
        or length_problem(cell, list(zip(context.boots, measured, strict=True)))
        or context.coverage()
        or _warm_prefix_cache(context.boots, prefix, context.plan.gates)
    )
    if problem is not None:
        return context.invalid(problem, evidence)
    if context.plan.gates.claims_speed and context.paired:
        return _judge_speed(context, evidence)
    return context.passed(_report(context, evidence), evidence)


def measure(boot: CellBoot, measured: Sequence[RequestRecord]) -> BootMeasurement:
    """Measure one cell in one boot.

    Args:
        boot: The boot.
        measured: Its requests without warm-up.
    """
    completed = [r for r in measured if r.outcome.status == "completed"]
    ttft = [value for value in map(ttft_ms, completed) if value is not None]
    tpot = [value for value in map(tpot_ms, completed) if value is not None]
    return BootMeasurement(
        slot=boot.slot.slot,
        arm=boot.slot.arm,
        pair=boot.slot.pair,
        completed=len(completed),
        failed=len(measured) - len(completed),
        ttft_ms_p50=statistics.median(ttft) if ttft else None,
        tpot_ms_p50=statistics.median(tpot) if tpot else None,
        tpot_undefined=len(completed) - len(tpot),
        output_tokens_per_s=output_tokens_per_s(measured),
    )


def _intervals(
    context: CellContext, boots: tuple[BootMeasurement, ...]
) -> tuple[RatioInterval, ...]:
    by_slot = {boot.slot: boot for boot in boots}
    pairs = [(by_slot[b.slot.slot], by_slot[c.slot.slot]) for b, c in context.paired_boots()]
    found: list[RatioInterval] = []
    for metric in _METRICS:
        values = [(_value(b, metric), _value(c, metric)) for b, c in pairs]
        known = [(b, c) for b, c in values if b is not None and c is not None]
        interval = ratio_interval(metric, known, confidence=context.plan.gates.confidence)
        if interval is not None:
            found.append(interval)
    return tuple(found)


def _value(boot: BootMeasurement, metric: Metric) -> float | None:
    if metric == "output_tokens_per_s":
        return boot.output_tokens_per_s
    return boot.ttft_ms_p50 if metric == "ttft_ms_p50" else boot.tpot_ms_p50


def _failed_requests(boots: Sequence[BootMeasurement], gates: Gates) -> Problem | None:
    for boot in boots:
        total = boot.completed + boot.failed
        if boot.completed == 0 or boot.failed > gates.maximum_error_rate * total:
            return Problem(
                "failed_requests",
                f"{boot.failed} of {total} requests failed in boot {boot.slot} ({boot.arm}); at "
                f"most {percent(gates.maximum_error_rate)} may fail.",
            )
    return None


def _warm_prefix_cache(
    boots: Sequence[CellBoot], prefix: Sequence[PrefixCacheReading], gates: Gates
) -> Problem | None:
    for boot, reading in zip(boots, prefix, strict=True):
        where = f"in boot {boot.slot.slot} ({boot.slot.arm})"
        if reading.contradiction is not None:
            reason = f"The prefix cache cannot be judged {where}: {reading.contradiction}."
            return Problem("warm_prefix_cache", reason)
        if reading.hit_rate is None:
            if gates.claims_speed:
                reason = f"The server does not report prefix cache hits {where}."
                return Problem("warm_prefix_cache", reason)
        elif reading.hit_rate > gates.maximum_prefix_hit_rate:
            return Problem(
                "warm_prefix_cache",
                f"The prefix cache served {percent(reading.hit_rate)} of the prompt tokens "
                f"{where}; at most {percent(gates.maximum_prefix_hit_rate)} may come from it.",
            )
    return None


def _judge_speed(
    context: CellContext, evidence: ServingEvidence
) -> CellPass | CellFail | CellInconclusive:
    gates = context.plan.gates
    interval = _throughput(evidence)
    if interval is None or interval.pairs != len(context.pairs):
        return context.inconclusive("Throughput is not defined in every pair of boots.", evidence)
    found = _interval_words(interval)
    if interval.lower is None or interval.upper is None:
        return context.inconclusive(f"{found}; one pair gives no bounds.", evidence)
    threshold = ratio(gates.minimum_speed_ratio)
    if interval.lower > gates.minimum_speed_ratio:
        return context.passed(f"{found}; the lower bound exceeds {threshold}.", evidence)
    if interval.upper < gates.minimum_speed_ratio:
        return context.failed(f"{found}; the upper bound is below {threshold}.", evidence)
    return context.inconclusive(f"{found}; the bounds hold {threshold}.", evidence)


def _report(context: CellContext, evidence: ServingEvidence) -> str:
    completed = sum(boot.completed for boot in evidence.boots)
    total = completed + sum(boot.failed for boot in evidence.boots)
    done = f"{completed} of {total} requests completed with the planned length"
    interval = _throughput(evidence)
    if not context.paired:
        first = evidence.boots[0]
        return (
            f"{done}; median TTFT {milliseconds(first.ttft_ms_p50)}, median TPOT "
            f"{milliseconds(first.tpot_ms_p50)}; one server, nothing to compare."
        )
    if interval is None:
        return f"{done}; throughput is undefined."
    return f"{done}. {_interval_words(interval)}; reported, not judged by {context.plan.tier}."


def _throughput(evidence: ServingEvidence) -> RatioInterval | None:
    return next((i for i in evidence.intervals if i.metric == "output_tokens_per_s"), None)


def _interval_words(interval: RatioInterval) -> str:
    pairs = f"{interval.pairs} pair{'' if interval.pairs == 1 else 's'}"
    words = f"Throughput candidate / baseline {ratio(interval.ratio)} over {pairs}"
    if interval.lower is None or interval.upper is None:
        return words
    bounds = f"one-sided {percent(interval.confidence)} bounds"
    words = f"{words}, {bounds} {ratio(interval.lower)} and {ratio(interval.upper)}"
    effect = interval.minimum_detectable_effect
    if effect is None:
        return words
    gain = f"{effect * 100:.3g} %" if effect < 1e4 else "over 1000000 %"  # noqa: PLR2004
    return f"{words}; the smallest gain this would find is {gain}"

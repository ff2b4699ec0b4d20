"""The rule of a serving cell: are its numbers what was to be measured, and is it fast enough?"""

from collections.abc import Sequence
from typing import Final

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.client_gate import client_problem, read_client
from k3bundle.derive.engine_gate import engine_problem, lost_speculation
from k3bundle.derive.interval import Metric, PairValue, ratio_interval
from k3bundle.derive.measurement import Readings, measure
from k3bundle.derive.null_pairs import compare_null
from k3bundle.derive.prefix_cache import PrefixCacheReading, read_prefix_cache, shared_share
from k3bundle.derive.problem import Problem
from k3bundle.derive.requests_check import length_problem, measured_requests
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import milliseconds, percent
from k3bundle.derive.speculation import read_speculation
from k3bundle.derive.speed_rule import interval_words, judge_speed, throughput
from k3bundle.derive.telemetry_gate import read_telemetry, telemetry_problem
from k3bundle.plan import Gates, ServingCell
from k3bundle.request import RequestRecord
from k3bundle.verdict import (
    BootMeasurement,
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    NullComparison,
    RatioInterval,
    ServingEvidence,
)

__all__ = ["judge_serving"]

_METRICS: Final[tuple[Metric, ...]] = ("output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50")


def judge_serving(
    context: CellContext, cell: ServingCell
) -> CellPass | CellFail | CellInconclusive | CellInvalid:
    """Judge one serving cell.

    Speed gates the cell only where the plan's tier claims speed; elsewhere it is reported.
    """
    measured = [measured_requests(boot) for boot in context.boots]
    readings = [_read(context, cell, b, m) for b, m in zip(context.boots, measured, strict=True)]
    boots = tuple(
        measure(boot, cell, requests, reading)
        for boot, requests, reading in zip(context.boots, measured, readings, strict=True)
    )
    prefix = [read_prefix_cache(b, m) for b, m in zip(context.boots, measured, strict=True)]
    rates = [reading.hit_rate for reading in prefix if reading.hit_rate is not None]
    intervals, null = _compared(context, boots)
    evidence = ServingEvidence(
        boots=boots, intervals=intervals, prefix_hit_rate=max(rates, default=None), null=null
    )
    problem = (
        context.missing(cell)
        or length_problem(cell, list(zip(context.boots, measured, strict=True)))
        or _failed_requests(boots, context.plan.gates)
        or context.coverage()
        or _warm_prefix_cache(context, cell, prefix)
    )
    speculation = [reading.speculation for reading in readings]
    lost = lost_speculation(context.boots, speculation) if problem is None else None
    if lost is not None:
        return context.failed(lost, evidence)
    problem = (
        problem
        or engine_problem(context.boots, speculation)
        or _client_bound(context, cell, readings)
        or telemetry_problem(
            context.boots, [reading.telemetry for reading in readings], context.plan.gates
        )
    )
    if problem is not None:
        return context.invalid(problem, evidence)
    if context.plan.gates.claims_speed and context.paired:
        return judge_speed(context, cell, evidence)
    return context.passed(_report(context, evidence), evidence)


def _read(
    context: CellContext, cell: ServingCell, boot: CellBoot, measured: Sequence[RequestRecord]
) -> Readings:
    """What one boot says beside its requests."""
    deployment = next(
        (one for one in context.plan.deployments if one.name == cell.deployment), None
    )
    drafts = 0 if deployment is None else deployment.draft_tokens
    return Readings(
        client=read_client(boot.finished.client, measured, cell.concurrency),
        telemetry=read_telemetry(boot, measured),
        speculation=read_speculation(boot.counters, drafts),
        gpu_count=0 if deployment is None else deployment.gpu_count,
    )


def _client_bound(
    context: CellContext, cell: ServingCell, readings: Sequence[Readings]
) -> Problem | None:
    for boot, reading in zip(context.boots, readings, strict=True):
        found = client_problem(reading.client, cell, context.plan.gates)
        if found is not None:
            where = f"In boot {boot.slot.slot} ({boot.slot.arm})"
            return Problem(found.cause, f"{where} {found.reason}.")
    return None


def _compared(
    context: CellContext, boots: tuple[BootMeasurement, ...]
) -> tuple[tuple[RatioInterval, ...], NullComparison | None]:
    """The arms over their pairs, and the null pairs beside them."""
    gates = context.plan.gates
    found: list[RatioInterval] = []
    for metric in _METRICS:
        interval = ratio_interval(
            metric,
            _pair_values(context, boots, metric),
            confidence=gates.confidence,
            drift_adjusted=gates.drift_adjusted,
        )
        if interval is not None:
            found.append(interval)
    rates = {boot.slot: boot.output_tokens_per_s for boot in boots}
    arms = _pair_values(context, boots, "output_tokens_per_s")
    return tuple(found), compare_null(context, arms, rates)


def _pair_values(
    context: CellContext, boots: Sequence[BootMeasurement], metric: Metric
) -> list[PairValue]:
    by_slot = {boot.slot: _value(boot, metric) for boot in boots}
    values: list[PairValue] = []
    for pair in context.pairs:
        baseline = by_slot.get(pair.baseline.slot)
        candidate = by_slot.get(pair.candidate.slot)
        if baseline is not None and candidate is not None:
            values.append(PairValue(baseline, candidate, pair.order))
    return values


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
    context: CellContext, cell: ServingCell, prefix: Sequence[PrefixCacheReading]
) -> Problem | None:
    gates = context.plan.gates
    allowed = min(1.0, gates.maximum_prefix_hit_rate + shared_share(cell))
    for boot, reading in zip(context.boots, prefix, strict=True):
        where = f"in boot {boot.slot.slot} ({boot.slot.arm})"
        if reading.contradiction is not None:
            reason = f"The prefix cache cannot be judged {where}: {reading.contradiction}."
            return Problem("warm_prefix_cache", reason)
        if reading.hit_rate is None:
            if gates.claims_speed:
                reason = f"The server does not report prefix cache hits {where}."
                return Problem("warm_prefix_cache", reason)
        elif reading.hit_rate > allowed:
            return Problem(
                "warm_prefix_cache",
                f"The prefix cache served {percent(reading.hit_rate)} of the prompt tokens "
                f"{where}; at most {percent(allowed)} may come from it.",
            )
    return None


def _report(context: CellContext, evidence: ServingEvidence) -> str:
    completed = sum(boot.completed for boot in evidence.boots)
    total = completed + sum(boot.failed for boot in evidence.boots)
    done = f"{completed} of {total} requests completed with the planned length"
    interval = throughput(evidence)
    if not context.paired:
        first = evidence.boots[0]
        return (
            f"{done}; median TTFT {milliseconds(first.ttft_ms_p50)}, median TPOT "
            f"{milliseconds(first.tpot_ms_p50)}; one server, nothing to compare."
        )
    if interval is None:
        return f"{done}; throughput is undefined."
    return f"{done}. {interval_words(interval)}; reported, not judged by {context.plan.tier}."

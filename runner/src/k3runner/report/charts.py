"""Data of the report's charts, taken from verdict and records. Pure; no markup here."""

from collections import Counter
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.derive.speed_rule import speed_threshold, throughput
from k3bundle.plan import Plan, ServingCell
from k3bundle.request import RequestRecord
from k3bundle.run import BootStarted, CellFinished
from k3bundle.verdict import (
    BootMeasurement,
    CellCoverage,
    CellSkipped,
    RatioInterval,
    ServingEvidence,
    Verdict,
)
from k3runner.report.view import (
    BootDot,
    CoverageBar,
    IntervalRow,
    RatioRow,
    ServingChart,
    TokenRow,
)
from k3runner.wording import percent

__all__ = ["coverage_bars", "interval_rows", "ratio_rows", "serving_charts", "token_rows"]

METRIC_NAMES: Final = {
    "ttft_ms_p50": "Time to first token, p50",
    "tpot_ms_p50": "Time per output token, p50",
    "output_tokens_per_s": "Output throughput",
}
"""Names of the serving numbers, in the order shown."""

_UNITS: Final = {"ttft_ms_p50": "ms", "tpot_ms_p50": "ms", "output_tokens_per_s": "tokens/s"}
_NANOSECONDS_PER_MS: Final = 1e6


def serving_charts(verdict: Verdict) -> tuple[ServingChart, ...]:
    """Return three charts for each serving cell with evidence."""
    charts = []
    for cell_id, evidence in _serving(verdict):
        for metric, name in METRIC_NAMES.items():
            charts.append(
                ServingChart(
                    cell_id=cell_id,
                    metric=name,
                    unit=_UNITS[metric],
                    better="higher" if metric == "output_tokens_per_s" else "lower",
                    dots=tuple(_dot(boot, metric) for boot in evidence.boots),
                )
            )
    return tuple(charts)


def interval_rows(plan: Plan, verdict: Verdict) -> tuple[IntervalRow, ...]:
    """Return every ratio with its bounds."""
    return tuple(
        _interval(cell_id, interval, judged=plan.gates.claims_speed)
        for cell_id, evidence in _serving(verdict)
        for interval in evidence.intervals
    )


def ratio_rows(plan: Plan, verdict: Verdict) -> tuple[RatioRow, ...]:
    """Return the throughput ratio of every serving cell that has one, in plan order."""
    planned = {cell.cell_id: cell for cell in plan.cells if isinstance(cell, ServingCell)}
    rows = []
    for result in verdict.cells:
        cell = planned.get(result.cell_id)
        if cell is None or isinstance(result, CellSkipped):
            continue
        if not isinstance(result.evidence, ServingEvidence):
            continue
        interval = throughput(result.evidence)
        if interval is not None:
            judged = plan.gates.claims_speed
            asked, threshold = _asked(cell, plan)
            rows.append(
                RatioRow(
                    cell_id=result.cell_id,
                    deployment=cell.deployment,
                    status=result.status,
                    asked=asked if judged else "nothing",
                    threshold=threshold if judged else None,
                    interval=_interval(result.cell_id, interval, judged=judged),
                )
            )
    return tuple(rows)


def _asked(cell: ServingCell, plan: Plan) -> tuple[str, float | None]:
    """What a cell has to show about speed, in words and as a ratio."""
    if cell.speed.kind == "excused":
        return "excused", None
    threshold = speed_threshold(cell.speed, plan.gates)
    if cell.speed.kind == "superiority":
        return "faster", threshold
    why = ", stock serves it by plan" if cell.expects_fallback else ""
    return f"at most {percent(1 - threshold)} slower{why}", threshold


def coverage_bars(plan: Plan, verdict: Verdict) -> tuple[CoverageBar, ...]:
    """Return decode steps by path, for each cell and arm."""
    expected = {arm.name: arm.expected_path for arm in plan.arms}
    bars = []
    for result in verdict.cells:
        if isinstance(result, CellSkipped):
            continue
        for arm in ("baseline", "candidate"):
            found = [entry for entry in result.coverage if entry.arm == arm]
            if found:
                path = expected.get(found[0].arm, "")
                bars.append(_bar(result.cell_id, arm, path, found))
    return tuple(bars)


def token_rows(records: RunRecords) -> tuple[str | None, tuple[TokenRow, ...]]:
    """Return a serving cell and, for each boot that finished it, one request's token arrivals.

    The request is the first measured one that completed in every such boot, so the same prompt
    is seen in each row.
    """
    for cell in records.plan.cells:
        if cell.kind != "serving":
            continue
        finished = {
            event.boot_id: event.slot
            for event in records.cells
            if isinstance(event, CellFinished) and event.cell_id == cell.cell_id
        }
        requests = _first_common(records, cell.cell_id, set(finished))
        if requests:
            arms = {e.boot_id: e.arm for e in records.boots if isinstance(e, BootStarted)}
            rows = [_tokens(finished[r.boot_id], arms.get(r.boot_id, ""), r) for r in requests]
            return cell.cell_id, tuple(sorted(rows, key=lambda row: row.slot))
    return None, ()


def _first_common(
    records: RunRecords, cell_id: str, boot_ids: set[str]
) -> tuple[RequestRecord, ...]:
    by_index: dict[int, dict[str, RequestRecord]] = {}
    for request in records.requests:
        wanted = request.cell_id == cell_id and request.variant == "measured"
        if wanted and request.boot_id in boot_ids and request.outcome.status == "completed":
            by_index.setdefault(request.index, {})[request.boot_id] = request
    for _, found in sorted(by_index.items()):
        if set(found) == boot_ids:
            return tuple(found.values())
    return ()


def _tokens(slot: int, arm: str, request: RequestRecord) -> TokenRow:
    return TokenRow(
        slot=slot,
        arm=arm,
        at_ms=tuple(event.at_ns / _NANOSECONDS_PER_MS for event in request.events),
        tokens=tuple(event.tokens for event in request.events),
    )


def _serving(verdict: Verdict) -> list[tuple[str, ServingEvidence]]:
    return [
        (result.cell_id, result.evidence)
        for result in verdict.cells
        if not isinstance(result, CellSkipped) and isinstance(result.evidence, ServingEvidence)
    ]


def _dot(boot: BootMeasurement, metric: str) -> BootDot:
    values = {
        "ttft_ms_p50": boot.ttft_ms_p50,
        "tpot_ms_p50": boot.tpot_ms_p50,
        "output_tokens_per_s": boot.output_tokens_per_s,
    }
    return BootDot(slot=boot.slot, arm=boot.arm, pair=boot.pair, value=values[metric])


def _interval(cell_id: str, interval: RatioInterval, *, judged: bool) -> IntervalRow:
    return IntervalRow(
        cell_id=cell_id,
        metric=METRIC_NAMES[interval.metric],
        pairs=interval.pairs,
        ratio=interval.ratio,
        lower=interval.lower,
        upper=interval.upper,
        confidence=interval.confidence,
        minimum_detectable_effect=interval.minimum_detectable_effect,
        judged=judged,
    )


def _bar(cell_id: str, arm: str, path: str, found: list[CellCoverage]) -> CoverageBar:
    reasons: Counter[str] = Counter()
    for entry in found:
        reasons.update(entry.fallback_reasons)
    return CoverageBar(
        cell_id=cell_id,
        arm=arm,
        expected_path=path,
        expected_steps=sum(entry.expected_path_steps for entry in found),
        decode_steps=sum(entry.decode_steps for entry in found),
        available=all(entry.source != "unavailable" for entry in found),
        fallback_reasons=tuple(reasons.most_common()),
    )

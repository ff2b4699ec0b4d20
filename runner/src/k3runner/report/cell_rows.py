"""Cells of a verdict as rows of a table. Pure."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from k3bundle.plan import Plan
from k3bundle.verdict import (
    CellInvalid,
    CellResult,
    CellSkipped,
    Evidence,
    FeatureEvidence,
    GreedyEvidence,
    ServingEvidence,
    Verdict,
)
from k3runner.report.kernels import kernel_numbers
from k3runner.report.view import CellRow
from k3runner.wording import cell_phrase, count_text, digits, milliseconds, percent

__all__ = ["cell_rows"]

_DASH: Final = "\N{EN DASH}"


def cell_rows(plan: Plan, verdict: Verdict) -> tuple[CellRow, ...]:
    """Return one row for each cell of the verdict, in its order."""
    planned = {cell.cell_id: cell for cell in plan.cells}
    rows = []
    for result in verdict.cells:
        cell = planned.get(result.cell_id)
        rows.append(
            CellRow(
                cell_id=result.cell_id,
                kind="unplanned" if cell is None else cell.kind,
                asks="" if cell is None or cell.kind == "skipped" else cell_phrase(cell),
                status=result.status,
                cause=result.cause if isinstance(result, CellInvalid) else None,
                reason=result.reason,
                numbers=_numbers(result),
            )
        )
    return tuple(rows)


def _numbers(result: CellResult) -> tuple[tuple[str, str], ...]:
    if isinstance(result, CellSkipped):
        return ()
    shares = [c.share for c in result.coverage if c.arm == "candidate" and c.share is not None]
    coverage = (("candidate path", percent(min(shares))),) if shares else ()
    return (*_evidence(result.evidence), *coverage)


def _evidence(evidence: Evidence | None) -> tuple[tuple[str, str], ...]:
    if evidence is None:
        return ()
    if isinstance(evidence, ServingEvidence):
        return _serving(evidence)
    if isinstance(evidence, GreedyEvidence):
        return _greedy(evidence)
    return _feature(evidence) if isinstance(evidence, FeatureEvidence) else kernel_numbers(evidence)


def _serving(evidence: ServingEvidence) -> tuple[tuple[str, str], ...]:
    ttft = _by_arm(evidence, [boot.ttft_ms_p50 for boot in evidence.boots], milliseconds)
    tpot = _by_arm(evidence, [boot.tpot_ms_p50 for boot in evidence.boots], milliseconds)
    rate = _by_arm(
        evidence,
        [boot.output_tokens_per_s for boot in evidence.boots],
        lambda value: _DASH if value is None else f"{digits(value)} tok/s",
    )
    failed = sum(boot.failed for boot in evidence.boots)
    total = failed + sum(boot.completed for boot in evidence.boots)
    return (
        ("TTFT p50", ttft),
        ("TPOT p50", tpot),
        ("output", rate),
        ("failed", f"{count_text(failed)} of {count_text(total)}"),
        ("prefix hits", percent(evidence.prefix_hit_rate)),
    )


def _by_arm(
    evidence: ServingEvidence,
    values: Sequence[float | None],
    show: Callable[[float | None], str],
) -> str:
    """Middle value of each arm over its boots: `A 41 ms · B 40 ms`."""
    parts = []
    for letter, arm in (("A", "baseline"), ("B", "candidate")):
        pairs = zip(evidence.boots, values, strict=True)
        found = [value for boot, value in pairs if boot.arm == arm and value is not None]
        if any(boot.arm == arm for boot in evidence.boots):
            parts.append(f"{letter} {show(median(found) if found else None)}")
    return " · ".join(parts) or _DASH


def _greedy(evidence: GreedyEvidence) -> tuple[tuple[str, str], ...]:
    return (
        (
            "identical",
            f"{count_text(evidence.identical_requests)} of "
            f"{count_text(evidence.compared_requests)}",
        ),
        ("ties", count_text(evidence.ties)),
        ("differences", count_text(evidence.differences)),
        ("positions", count_text(evidence.compared_positions)),
        ("decided", percent(evidence.decided_share)),
        ("largest Δ logprob", f"{digits(evidence.largest_logprob_difference_nats, 2)} nats"),
        ("baseline with itself", f"{count_text(evidence.baseline_self_differences)} differ"),
    )


def _feature(evidence: FeatureEvidence) -> tuple[tuple[str, str], ...]:
    rows = [
        ("A baseline", f"{evidence.baseline_passed} of {evidence.baseline_total}"),
        ("B candidate", f"{evidence.candidate_passed} of {evidence.candidate_total}"),
    ]
    if evidence.first_failure is not None:
        rows.append(("first failure", evidence.first_failure))
    return tuple(rows)

"""The report's numbers as CSV: one value a line, each with cell, boot and trust beside it.

Long and not wide, so that a new metric is a new line and no column ever changes its meaning. No
text of others is in it: names of cells are plain by their record type.
"""

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.kernel_evidence import KernelTiming, KernelTimingEvidence
from k3bundle.plan import Plan, SkippedCell
from k3bundle.verdict import (
    BootMeasurement,
    CellResult,
    CellSkipped,
    RatioInterval,
    ServingEvidence,
    Verdict,
)

__all__ = ["COLUMNS", "render_csv"]

COLUMNS: Final = (
    "trust", "commit_sha", "kind", "cell_id", "deployment", "status", "slot", "arm", "role",
    "metric", "value",
)  # fmt: skip
"""Names of the columns, in order. A column that does not apply is empty."""

_PLACE: Final = frozenset({"slot", "arm", "pair", "role"})
_Line = dict[str, str]


def render_csv(records: RunRecords, verdict: Verdict, trust: str) -> str:
    """Return every number of a verdict.

    Args:
        records: What the run recorded.
        verdict: Derived from these records.
        trust: Trust label of the report.

    Returns:
        CSV with a head line; kinds are `headline`, `boot`, `ratio`, `coverage`, `kernel`
        and `cell`.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    same = {"trust": trust, "commit_sha": records.subject.change.commit_sha}
    writer.writerows({**same, **line} for line in _lines(records.plan, verdict))
    return out.getvalue()


def _lines(plan: Plan, verdict: Verdict) -> Iterator[_Line]:
    for number in verdict.headline:
        yield {
            "kind": "headline",
            "cell_id": number.cell_id or "",
            "metric": number.name,
            "value": repr(number.value),
        }
    deployments = {
        cell.cell_id: cell.deployment for cell in plan.cells if not isinstance(cell, SkippedCell)
    }
    for cell in verdict.cells:
        place = {
            "cell_id": cell.cell_id,
            "deployment": deployments.get(cell.cell_id, ""),
            "status": cell.status,
        }
        yield {**place, "kind": "cell"}
        yield from ({**place, **line} for line in _cell(cell))


def _cell(cell: CellResult) -> Iterator[_Line]:
    if isinstance(cell, CellSkipped):
        return
    for entry in cell.coverage:
        if entry.share is not None:
            yield {
                **_boot(entry.slot, entry.arm),
                "kind": "coverage",
                "metric": "expected_path_share",
                "value": repr(entry.share),
            }
    if isinstance(cell.evidence, KernelTimingEvidence):
        for timing in cell.evidence.timings:
            yield from _timing(timing)
    if not isinstance(cell.evidence, ServingEvidence):
        return
    for boot in cell.evidence.boots:
        yield from _measurement(boot)
    for interval in cell.evidence.intervals:
        yield from _interval(interval)


def _timing(timing: KernelTiming) -> Iterator[_Line]:
    # The name of a case is the package's own text; only its plain characters go into a table.
    case = re.sub(r"[^A-Za-z0-9_.-]", "_", timing.case)
    for name, value in timing.model_dump(exclude={"op", "case", "cold"}).items():
        if value is not None:
            metric = f"{timing.op}.{case}.{name}"
            yield {"kind": "kernel", "metric": metric, "value": repr(value)}


def _measurement(boot: BootMeasurement) -> Iterator[_Line]:
    place = {**_boot(boot.slot, boot.arm), "role": boot.role, "kind": "boot"}
    for name, value in boot.model_dump().items():
        if name not in _PLACE and isinstance(value, int | float):
            yield {**place, "metric": name, "value": repr(value)}


def _interval(interval: RatioInterval) -> Iterator[_Line]:
    for name, value in interval.model_dump(exclude={"metric"}).items():
        if isinstance(value, int | float):
            metric = f"{interval.metric}.{name}"
            yield {"kind": "ratio", "metric": metric, "value": repr(value)}


def _boot(slot: int, arm: str) -> _Line:
    return {"slot": str(slot), "arm": arm}

"""Rules for the machine, and for records that a bundle may lack: telemetry, graphs, separation."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.finding import Finding, FindingCode
from k3bundle.graph_record import GraphTable
from k3bundle.journal import Journal
from k3bundle.plan import SkippedCell

__all__ = ["machine_findings"]

_HINT: Final = "Take the run folder as the runner wrote it; nothing in it is edited by hand."


def machine_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where these records name unknown places, repeat, run backwards, or do not fit."""
    yield from _machine_findings(records)
    yield from _telemetry_findings(records, journal)
    yield from _graph_findings(records, journal)
    yield from _separation_findings(records, journal)
    audit = records.isolation
    if audit is not None and audit.head_sha != records.subject.change.commit_sha:
        yield _finding(
            "change-mismatch",
            f"{layout.ISOLATION} $.head_sha",
            f"Expected the audit of {records.subject.change.commit_sha}, found {audit.head_sha}.",
        )


def _machine_findings(records: RunRecords) -> Iterator[Finding]:
    """An image of another architecture, and deployments on more GPUs than there are."""
    image, node = records.subject.image, records.environment
    if image.architecture not in {None, node.architecture}:
        yield _finding(
            "records-inconsistent",
            f"{layout.SUBJECT} $.image.architecture",
            f"Expected an image of {node.architecture}, as the machine is, found one of "
            f"{image.architecture}.",
        )
    there = len(node.gpus) * node.node_count
    run = {cell.deployment for cell in records.plan.cells if not isinstance(cell, SkippedCell)}
    for number, deployment in enumerate(records.plan.deployments):
        if deployment.name in run and deployment.gpu_count > there:
            yield _finding(
                "records-inconsistent",
                f"{layout.PLAN} $.deployments[{number}].gpu_count",
                f"Expected at most {there} GPUs, {len(node.gpus)} in each machine, found "
                f"{deployment.gpu_count}.",
            )


def _telemetry_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    last_ns: dict[tuple[str, str], int] = {}
    sources: set[str] = set()
    for number, line in enumerate(records.telemetry, start=1):
        where = f"{layout.TELEMETRY} line {number}"
        if line.kind == "source":
            yield from _place(line.boot_id, None, journal, where)
            if line.boot_id in sources:
                yield _inconsistent(where, f"Expected one source of {line.boot_id}, found another.")
            sources.add(line.boot_id)
            continue
        yield from _place(line.boot_id, line.cell_id, journal, where)
        if line.kind == "sample":
            before = last_ns.get((line.boot_id, line.cell_id), 0)
            if line.at_ns < before:
                why = f"Expected a stamp of {before} ns or later, found {line.at_ns} ns."
                yield _inconsistent(where, why)
            last_ns[line.boot_id, line.cell_id] = max(line.at_ns, before)


def _graph_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    tables: dict[tuple[str, str, str], GraphTable] = {}
    for number, event in enumerate(records.graphs, start=1):
        where = f"{layout.GRAPHS} line {number}"
        if event.event == "profile":
            yield from _place(event.boot_id, None, journal, where)
            if event.graph_steps > event.steps:
                why = f"Expected at most {event.steps} graph steps, found {event.graph_steps}."
                yield _inconsistent(where, why)
            continue
        yield from _place(event.boot_id, event.cell_id, journal, where)
        key = (event.boot_id, event.cell_id, event.moment)
        if key in tables:
            yield _inconsistent(where, "Expected one table per boot, cell and moment.")
        tables[key] = event
        sizes = Counter((row.unpadded_tokens, row.padded_tokens, row.mode) for row in event.rows)
        if sizes and max(sizes.values()) > 1:
            yield _inconsistent(where, "Expected one row per size and mode, found more.")
        before = tables.get((event.boot_id, event.cell_id, "before"))
        if event.moment == "after" and before is not None:
            yield from _backwards(before, event, where)


def _backwards(before: GraphTable, after: GraphTable, where: str) -> Iterator[Finding]:
    counts = {(r.unpadded_tokens, r.padded_tokens, r.mode): r.count for r in after.rows}
    for row in before.rows:
        now = counts.get((row.unpadded_tokens, row.padded_tokens, row.mode), 0)
        if now < row.count:
            why = (
                f"Expected at least {row.count} {row.mode} steps of {row.unpadded_tokens} tokens, "
                f"found {now}."
            )
            yield _inconsistent(where, why)


def _separation_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    seen: set[str] = set()
    for number, record in enumerate(records.separation, start=1):
        where = f"{layout.SEPARATION} line {number}"
        yield from _place(record.boot_id, None, journal, where)
        if record.boot_id in seen:
            yield _inconsistent(where, f"Expected one record of {record.boot_id}, found another.")
        seen.add(record.boot_id)
        if (record.engine_user == "same") != (record.why_same is not None):
            yield _inconsistent(where, "Expected a reason exactly when the user is the same.")


def _place(boot_id: str, cell_id: str | None, journal: Journal, where: str) -> Iterator[Finding]:
    if boot_id not in journal.started:
        yield _finding("boot-out-of-plan", where, f"Expected a started boot, found {boot_id}.")
    if cell_id is not None and cell_id not in journal.cells:
        why = f"Expected a planned cell that is not skipped, found {cell_id}."
        yield _finding("cell-out-of-plan", where, why)


def _inconsistent(where: str, why: str) -> Finding:
    return _finding("records-inconsistent", where, why)


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)

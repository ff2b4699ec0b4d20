"""Rules for attempts, boots, cells, coverage and counters: they must tell one story."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.finding import Finding, FindingCode
from k3bundle.journal import Journal
from k3bundle.run import BootReady, BootStarted, BootStopped, CellFinished
from k3bundle.schedule import runs_in

__all__ = [
    "attempt_findings",
    "boot_findings",
    "cell_findings",
    "earlier_findings",
    "snapshot_findings",
]

_HINT: Final = "Take the run folder as the runner wrote it; nothing in it is edited by hand."
Snapshot = TypeVar("Snapshot", CoverageSnapshot, EngineCounters)


def attempt_findings(records: RunRecords) -> Iterator[Finding]:
    """Yield where attempts are not numbered from 0, the first fresh and the others resumed.

    Also where an attempt read another subject than the run's.
    """
    subject = sha256_hex(canonical_json(records.subject))
    if not records.attempts:
        yield _inconsistent(layout.ATTEMPTS, "Expected at least one attempt, found none.")
    for number, attempt in enumerate(records.attempts):
        where = f"{layout.ATTEMPTS} line {number + 1}"
        if attempt.attempt != number:
            yield _inconsistent(where, f"Expected attempt {number}, found {attempt.attempt}.")
        if attempt.resumed != (number > 0):
            yield _inconsistent(where, f"Expected resumed {number > 0}, found {attempt.resumed}.")
        if attempt.subject_sha256 not in {None, subject}:
            why = f"Expected the subject {subject}, found {attempt.subject_sha256}."
            yield _inconsistent(where, why)


def earlier_findings(records: RunRecords) -> Iterator[Finding]:
    """Yield where the runs before this one repeat, or are this one."""
    earlier = records.earlier
    if earlier is None:
        return
    ids = [run.run_id for run in earlier.runs]
    if len(set(ids)) != len(ids) or records.run.run_id in ids:
        why = "Expected every earlier run once and not this run, found one again."
        yield _inconsistent(layout.EARLIER, why)
    if earlier.why_unknown is not None and (ids or earlier.left_out or earlier.other_plans):
        yield _inconsistent(layout.EARLIER, "Expected no earlier run without a ledger, found one.")


def boot_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where boots do not follow the plan or their own life: started, ready, stopped."""
    seen: dict[str, str] = {}
    last_slot: dict[int, int] = {}
    attempts = {attempt.attempt for attempt in records.attempts}
    for number, event in enumerate(records.boots, start=1):
        where = f"{layout.BOOTS} line {number}"
        before = seen.get(event.boot_id)
        allowed: tuple[str | None, ...]
        if isinstance(event, BootStarted):
            allowed = (None,)
            yield from _started_findings(event, journal, attempts, where)
            if event.slot <= last_slot.get(event.attempt, -1):
                why = f"Expected slots of an attempt in order, found slot {event.slot} late."
                yield _inconsistent(where, why)
            last_slot[event.attempt] = event.slot
        else:
            allowed = ("started",) if isinstance(event, BootReady) else ("started", "ready")
        if before not in allowed:
            yield _inconsistent(
                where, f"Expected {event.event} in its turn, found it after {before or 'nothing'}."
            )
        if isinstance(event, BootStopped) and event.how == "never_ready" and before == "ready":
            yield _inconsistent(where, "Expected a boot that was never ready, found it ready.")
        seen[event.boot_id] = event.event


def _started_findings(
    event: BootStarted, journal: Journal, attempts: set[int], where: str
) -> Iterator[Finding]:
    slot = journal.slots.get(event.slot)
    if slot is None:
        yield _finding("boot-out-of-plan", where, f"Expected a planned slot, found {event.slot}.")
    elif slot.arm != event.arm:
        why = f"Expected arm {slot.arm} in slot {event.slot}, found {event.arm}."
        yield _finding("boot-out-of-plan", where, why)
    expected = f"boot-{event.slot}.{event.attempt}"
    if event.boot_id != expected:
        yield _inconsistent(where, f"Expected boot id {expected}, found {event.boot_id}.")
    if event.attempt not in attempts:
        yield _inconsistent(where, f"Expected a known attempt, found {event.attempt}.")


def cell_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where cell events name unknown boots or cells, repeat, or count wrongly."""
    written = Counter((request.boot_id, request.cell_id) for request in records.requests)
    finished: set[tuple[int, str]] = set()
    for number, event in enumerate(records.cells, start=1):
        where = f"{layout.CELLS} line {number}"
        yield from _place_findings(event.boot_id, event.cell_id, journal, where)
        boot = journal.started.get(event.boot_id)
        if boot is not None and boot.slot != event.slot:
            yield _inconsistent(where, f"Expected slot {boot.slot}, found {event.slot}.")
        yield from _slot_findings(event.slot, event.cell_id, journal, where)
        if not isinstance(event, CellFinished):
            continue
        # Measuring a finished cell again until it pleases is no measurement.
        if (event.slot, event.cell_id) in finished:
            yield _inconsistent(where, f"Expected {event.cell_id} to finish once in a slot.")
        finished.add((event.slot, event.cell_id))
        key = (event.boot_id, event.cell_id)
        if event.boot_id not in journal.ready:
            yield _inconsistent(where, f"Expected {event.boot_id} ready before a cell finished.")
        if written[key] != event.request_count:
            why = f"Expected {event.request_count} request records, found {written[key]}."
            yield _inconsistent(where, why)


def _slot_findings(slot: int, cell_id: str, journal: Journal, where: str) -> Iterator[Finding]:
    planned, cell = journal.slots.get(slot), journal.cells.get(cell_id)
    if planned is not None and cell is not None and not runs_in(cell, planned):
        why = f"Expected a cell that slot {slot} runs, found {cell_id}."
        yield _finding("cell-out-of-plan", where, why)


def snapshot_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where coverage or counters repeat, name unknown places, or run backwards."""
    yield from _snapshots(layout.COVERAGE, records.coverage, journal, _coverage_backwards)
    yield from _snapshots(layout.COUNTERS, records.counters, journal, _counters_backwards)
    for number, snapshot in enumerate(records.coverage, start=1):
        keys = Counter((step.kind, step.path, step.reason) for step in snapshot.counts)
        if keys and max(keys.values()) > 1:
            where = f"{layout.COVERAGE} line {number}"
            yield _inconsistent(where, "Expected one count per kind, path and reason, found more.")
        if snapshot.source == "unavailable" and snapshot.counts:
            where = f"{layout.COVERAGE} line {number}"
            yield _inconsistent(where, "Expected no counts from an unavailable source.")


def _snapshots(
    name: str,
    snapshots: tuple[Snapshot, ...],
    journal: Journal,
    backwards: Callable[[Snapshot, Snapshot], str | None],
) -> Iterator[Finding]:
    seen: dict[tuple[str, str, Literal["before", "after"]], Snapshot] = {}
    for number, snapshot in enumerate(snapshots, start=1):
        where = f"{name} line {number}"
        yield from _place_findings(snapshot.boot_id, snapshot.cell_id, journal, where)
        key = (snapshot.boot_id, snapshot.cell_id, snapshot.moment)
        if key in seen:
            yield _inconsistent(where, "Expected one snapshot per boot, cell and moment.")
        seen[key] = snapshot
        before = seen.get((snapshot.boot_id, snapshot.cell_id, "before"))
        if snapshot.moment == "after" and before is not None:
            why = backwards(before, snapshot)
            if why is not None:
                yield _inconsistent(where, why)


def _coverage_backwards(before: CoverageSnapshot, after: CoverageSnapshot) -> str | None:
    if "unavailable" in {before.source, after.source}:
        return None
    if before.source != after.source or before.configured_backend != after.configured_backend:
        return "Expected one source and backend within a cell, found two."
    counts = {(step.kind, step.path, step.reason): step.count for step in after.counts}
    for step in before.counts:
        now = counts.get((step.kind, step.path, step.reason), 0)
        if now < step.count:
            path = ascii(step.path)
            return f"Expected at least {step.count} {step.kind} steps of path {path}, found {now}."
    return None


def _counters_backwards(before: EngineCounters, after: EngineCounters) -> str | None:
    for name, value in before.counters.items():
        now = after.counters.get(name, 0.0)
        if name.endswith("_total") and now < value:
            return f"Expected {ascii(name)[:80]} at {value} or more, found {now}."
    return None


def _place_findings(boot_id: str, cell_id: str, journal: Journal, where: str) -> Iterator[Finding]:
    if boot_id not in journal.started:
        yield _finding("boot-out-of-plan", where, f"Expected a started boot, found {boot_id}.")
    if cell_id not in journal.cells:
        why = f"Expected a planned cell that is not skipped, found {cell_id}."
        yield _finding("cell-out-of-plan", where, why)


def _inconsistent(where: str, why: str) -> Finding:
    return _finding("records-inconsistent", where, why)


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)

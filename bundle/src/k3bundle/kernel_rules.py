"""Rules for what a kernel package said: each line in its cell, none twice, none missing."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.finding import Finding, FindingCode
from k3bundle.journal import Journal
from k3bundle.kernel_record import KernelCommand, KernelLine
from k3bundle.plan import KernelCell, Plan, SkippedCell
from k3bundle.run import CellFinished

__all__ = ["kernel_findings", "package_problems"]

_HINT: Final = "Take the run folder as the runner wrote it; nothing in it is edited by hand."
_LINE_OF: Final = {"check": "case", "audit": "audit", "bench": "timing"}
"""Task -> kind of the lines that its command prints."""


def package_problems(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (path in the plan, what was expected and found) where a package plan is none."""
    package = plan.pairing == "package"
    if package != (plan.tier == "kernels"):
        yield "$.pairing", f"Expected a package in the kernels tier alone, found {plan.tier}."
    if package and [arm.name for arm in plan.arms] != ["candidate"]:
        yield "$.arms", "Expected the candidate alone in a package plan, found another arm."
    if package and plan.gates.claims_speed:
        yield "$.gates.claims_speed", "Expected no speed claim of a package, found one."
    for index, cell in enumerate(plan.cells):
        where = f"$.cells[{index}]"
        kind = cell.of_kind if isinstance(cell, SkippedCell) else cell.kind
        if package != (kind == "kernel"):
            yield where, f"Expected kernel cells in a package plan alone, found {kind}."
        if isinstance(cell, KernelCell) and cell.groups and cell.task != "check":
            yield where, f"Expected groups of a check alone, found them in {cell.task}."


def kernel_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where these lines name unknown places, repeat, or are not as many as was counted."""
    counts: Counter[tuple[str, str]] = Counter()
    commands: dict[tuple[str, str], KernelCommand] = {}
    seen: set[tuple[str, ...]] = set()
    for number, line in enumerate(records.kernels, start=1):
        where = f"{layout.KERNELS} line {number}"
        yield from _place(line, journal, where)
        key = (line.boot_id, line.cell_id)
        if line.kind == "command":
            if key in commands:
                yield _inconsistent(where, f"Expected one command of {line.cell_id} in a boot.")
            commands[key] = line
            if not min(1, line.unread_lines) <= len(line.unread) <= line.unread_lines:
                why = f"Expected a sentence for {line.unread_lines} unread lines at most."
                yield _inconsistent(where, why)
            continue
        if key in commands:
            yield _inconsistent(where, "Expected the lines of a command before it, found one late.")
        counts[key] += 1
        name = _name(line)
        if name in seen:
            yield _inconsistent(where, f"Expected each answer once, found {name[-1]!a} twice.")
        seen.add(name)
    for key, command in commands.items():
        if counts[key] != command.lines:
            why = f"Expected {command.lines} lines of {key[1]}, found {counts[key]}."
            yield _inconsistent(layout.KERNELS, why)
    yield from _finished(records, journal, commands)


def _finished(
    records: RunRecords, journal: Journal, commands: dict[tuple[str, str], KernelCommand]
) -> Iterator[Finding]:
    """A kernel cell that finished has its command, and no client; another one has a client."""
    for number, event in enumerate(records.cells, start=1):
        cell = journal.cells.get(event.cell_id)
        if not isinstance(event, CellFinished) or cell is None:
            continue
        where = f"{layout.CELLS} line {number}"
        kernel = isinstance(cell, KernelCell)
        if kernel and (event.boot_id, event.cell_id) not in commands:
            yield _inconsistent(where, f"Expected the command of {event.cell_id}, found none.")
        if kernel == (event.client is not None):
            expected = "no load client" if kernel else "what the load client saw of itself"
            yield _inconsistent(where, f"Expected {expected} in {event.cell_id}.")


def _place(line: KernelLine, journal: Journal, where: str) -> Iterator[Finding]:
    if line.boot_id not in journal.started:
        why = f"Expected a started boot, found {line.boot_id}."
        yield _finding("boot-out-of-plan", where, why)
    cell = journal.cells.get(line.cell_id)
    if not isinstance(cell, KernelCell):
        why = f"Expected a planned kernel cell, found {line.cell_id}."
        yield _finding("cell-out-of-plan", where, why)
    elif line.kind not in {"command", _LINE_OF[cell.task]}:
        yield _inconsistent(where, f"Expected lines of {cell.task}, found {line.kind}.")


def _name(line: KernelLine) -> tuple[str, ...]:
    place = (line.boot_id, line.cell_id, line.kind)
    if line.kind == "audit":
        return (*place, line.file, line.architecture, line.kernel)
    if line.kind == "command":
        return place
    return (*place, line.op, line.case)


def _inconsistent(where: str, why: str) -> Finding:
    return _finding("records-inconsistent", where, why)


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)

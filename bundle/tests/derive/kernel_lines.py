"""What a kernel package said, changed in one place, and what is made of it."""

from typing import Any

from k3bundle.bundle import RunRecords
from k3bundle.finding import Finding
from k3bundle.kernel_record import KernelLine
from k3bundle.verdict import CellInvalid, CellResult, Verdict
from k3bundle.verify import consistency_findings
from k3bundle_testing.example_kernels import (
    kernel_lines,
)


def lines_with(kind: str, *, cell_id: str | None = None, op: str = "router", **changes: Any) -> Any:
    """Change the first line of a kind, of an op where it has one."""
    done = False

    def change(line: KernelLine) -> KernelLine:
        nonlocal done
        fits = line.kind == kind and cell_id in {None, line.cell_id}
        if fits and getattr(line, "op", op) == op and not done:
            done = True
            return line.model_copy(update=changes)
        return line

    return change


def without(*names: tuple[str, str]) -> Any:
    """Leave out (kind, op) pairs, and count fewer lines in the command."""
    gone = {
        cell_id: sum(
            (line.kind, getattr(line, "op", "")) in names and line.cell_id == cell_id
            for line in kernel_lines()
        )
        for cell_id in ("check", "audit", "bench")
    }

    def change(line: KernelLine) -> KernelLine | None:
        if (line.kind, getattr(line, "op", "")) in names:
            return None
        if line.kind == "command":
            return line.model_copy(update={"lines": line.lines - gone[line.cell_id]})
        return line

    return change


def cell(verdict: Verdict, cell_id: str) -> CellResult:
    return next(one for one in verdict.cells if one.cell_id == cell_id)


def cause(verdict: Verdict, cell_id: str) -> str:
    found = cell(verdict, cell_id)
    assert isinstance(found, CellInvalid)
    return found.cause


def claims(verdict: Verdict) -> dict[str, str]:
    return {claim.name: claim.status for claim in verdict.claims}


def findings(records: RunRecords) -> list[Finding]:
    return consistency_findings(records, None)

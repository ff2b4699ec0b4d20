"""The numbers of the kernels tier that are shown first."""

from collections.abc import Iterator, Sequence

from k3bundle.kernel_evidence import (
    KernelAuditEvidence,
    KernelCheckEvidence,
    KernelTimingEvidence,
)
from k3bundle.verdict import CellResult, CellSkipped, HeadlineNumber

__all__ = ["kernel_numbers"]


def kernel_numbers(cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    """Yield the numbers; each is left out where the records do not hold it."""
    for cell in cells:
        evidence = None if isinstance(cell, CellSkipped) else cell.evidence
        if isinstance(evidence, KernelCheckEvidence):
            yield from _checked(evidence, cell.cell_id)
        elif isinstance(evidence, KernelAuditEvidence):
            yield HeadlineNumber(
                name="audit_findings",
                value=float(evidence.findings),
                label=f"Reads that may come too early, in {evidence.kernels} audited kernels",
                cell_id=cell.cell_id,
            )
        elif isinstance(evidence, KernelTimingEvidence) and cell.status == "PASS":
            yield from _timed(evidence, cell.cell_id)


def _checked(evidence: KernelCheckEvidence, cell_id: str) -> Iterator[HeadlineNumber]:
    total = sum(op.passed + op.failed + op.errored for op in evidence.ops)
    if not total:
        return
    yield HeadlineNumber(
        name="passed_cases_share",
        value=sum(op.passed for op in evidence.ops) / total,
        label=f"Share of {total} cases of {len(evidence.ops)} ops that pass",
        cell_id=cell_id,
    )
    known = [op.worst for op in evidence.ops if op.worst is not None]
    if len(known) == len(evidence.ops):
        yield HeadlineNumber(
            name="largest_error_share",
            value=max(known),
            label="Largest error, as a share of what is allowed",
            cell_id=cell_id,
        )


def _timed(evidence: KernelTimingEvidence, cell_id: str) -> Iterator[HeadlineNumber]:
    cold = [one for one in evidence.timings if one.cold]
    if cold:
        least = min(cold, key=lambda one: one.sol_fraction)
        yield HeadlineNumber(
            name="least_sol_fraction",
            value=least.sol_fraction,
            label=f"Least share of the speed of light, over {len(cold)} timed cases: {least.op} "
            f"{least.case}"[:300],
            cell_id=cell_id,
        )

"""What the report shows of a kernel package: cases by op, and times beside the byte floor. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from k3bundle.kernel_evidence import (
    KernelAuditEvidence,
    KernelCheckEvidence,
    KernelTiming,
    KernelTimingEvidence,
)
from k3bundle.verdict import CellSkipped, Evidence, Verdict
from k3runner.wording import count_text, digits, percent

__all__ = ["KernelsView", "OpRow", "TimingRow", "kernel_numbers", "kernels_view"]


@dataclass(frozen=True)
class OpRow:
    """The cases of one op."""

    op: str
    passed: int
    total: int
    worst: str
    problem: str


@dataclass(frozen=True)
class TimingRow:
    """One timed case."""

    op: str
    case: str
    latency_us: float
    spread: str
    bandwidth_gb_per_s: float
    sol_fraction: float
    read_ratio: str
    cold: bool


@dataclass(frozen=True)
class KernelsView:
    """Everything that a package said."""

    ops: tuple[OpRow, ...]
    timings: tuple[TimingRow, ...]
    doubt: str
    """Why the times count for nothing, in a sentence; empty when they count."""

    @property
    def any(self) -> bool:
        """Whether there is something to show."""
        return bool(self.ops or self.timings)


def kernels_view(verdict: Verdict) -> KernelsView:
    """Return what the report shows of a package; nothing for a run with an engine."""
    ops: list[OpRow] = []
    timings: list[TimingRow] = []
    doubt = ""
    for status, reason, evidence in _evidence(verdict):
        if isinstance(evidence, KernelCheckEvidence):
            ops += [
                OpRow(
                    op=one.op,
                    passed=one.passed,
                    total=one.passed + one.failed + one.errored,
                    worst="not a number" if one.worst is None else f"{one.worst:.2f}",
                    problem=one.first_problem or "",
                )
                for one in evidence.ops
            ]
        elif isinstance(evidence, KernelTimingEvidence):
            timings += [_timing(one) for one in evidence.timings]
            doubt = doubt or ("" if status == "PASS" else reason)
    return KernelsView(tuple(ops), tuple(timings), doubt)


def _evidence(verdict: Verdict) -> Iterator[tuple[str, str, Evidence]]:
    """Status, reason and evidence of every cell that has some."""
    for cell in verdict.cells:
        if not isinstance(cell, CellSkipped) and cell.evidence is not None:
            yield cell.status, cell.reason, cell.evidence


def _timing(one: KernelTiming) -> TimingRow:
    return TimingRow(
        op=one.op,
        case=one.case,
        latency_us=one.latency_us,
        spread=percent(one.spread_share),
        bandwidth_gb_per_s=one.bandwidth_gb_per_s,
        sol_fraction=one.sol_fraction,
        read_ratio="" if one.read_ratio is None else f"{one.read_ratio:.2f}",
        cold=one.cold,
    )


def kernel_numbers(
    evidence: KernelCheckEvidence | KernelAuditEvidence | KernelTimingEvidence,
) -> tuple[tuple[str, str], ...]:
    """The numbers of one task, as label and value, for the table of cells."""
    if isinstance(evidence, KernelCheckEvidence):
        passed = sum(op.passed for op in evidence.ops)
        bad = sum(op.failed + op.errored for op in evidence.ops)
        return (
            ("ops", count_text(len(evidence.ops))),
            ("passed", f"{count_text(passed)} of {count_text(passed + bad)}"),
        )
    if isinstance(evidence, KernelAuditEvidence):
        return (
            ("kernels", count_text(evidence.kernels)),
            ("findings", count_text(evidence.findings)),
            ("start before others end", count_text(evidence.dependents)),
            ("undeclared", count_text(evidence.undeclared)),
            ("by PTX alone", count_text(evidence.on_ptx)),
        )
    throttled = evidence.throttled_share
    latencies = [one.latency_us for one in evidence.timings]
    spans = f"{digits(min(latencies))} to {digits(max(latencies))} us" if latencies else "none"
    return (
        ("timed", count_text(len(latencies))),
        ("latencies", spans),
        ("lowered clocks", "not known" if throttled is None else percent(throttled)),
    )

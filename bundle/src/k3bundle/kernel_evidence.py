"""Derived records of the kernels tier: what a package's answers amount to. Never trusted."""

from typing import Literal

from pydantic import Field

from k3bundle.kernel_record import CaseName, Microseconds, OpName
from k3bundle.record import Count, Fraction, Record, ShortText

__all__ = [
    "KernelAuditEvidence",
    "KernelCheckEvidence",
    "KernelTiming",
    "KernelTimingEvidence",
    "OpCheck",
]


class OpCheck(Record):
    """The cases of one op."""

    op: OpName
    """The op."""
    passed: Count
    """Cases whose result is within what is allowed."""
    failed: Count
    """Cases with a wrong result."""
    errored: Count
    """Cases whose kernel raised an error."""
    worst: float | None
    """Largest error over what is allowed; None where a case has no number."""
    first_problem: ShortText | None
    """The first case that did not pass, in words; None when all passed."""


class KernelCheckEvidence(Record):
    """Cases held against their references."""

    kind: Literal["kernel_check"] = "kernel_check"
    """Tag."""
    ops: tuple[OpCheck, ...]
    """One entry for each op, by name."""


class KernelAuditEvidence(Record):
    """Machine code that was audited."""

    kind: Literal["kernel_audit"] = "kernel_audit"
    """Tag."""
    kernels: Count
    """Kernels that were audited."""
    dependents: Count
    """Of those, kernels that start while the ones before may still write."""
    undeclared: Count
    """Of those, kernels of which nobody declared what their parameters lead to."""
    on_ptx: Count
    """Of those, kernels of which PTX alone was read."""
    findings: Count
    """Findings."""
    first_finding: ShortText | None
    """The first finding in words; None without any."""


class KernelTiming(Record):
    """One timed case."""

    op: OpName
    """The op."""
    case: CaseName
    """The case."""
    latency_us: Microseconds
    """Median time of one launch."""
    spread_share: float = Field(ge=0)
    """(slowest - fastest repetition) / median."""
    bandwidth_gb_per_s: float = Field(ge=0)
    """(read + written bytes) / median, in 10^9 bytes per second."""
    sol_fraction: float = Field(ge=0)
    """Time at peak bandwidth / median: the share of the speed of light."""
    read_ratio: float | None = Field(default=None, ge=0)
    """Median / time of a kernel that only reads as many bytes; None where that says little."""
    cold: bool
    """Whether bytes come from memory."""


class KernelTimingEvidence(Record):
    """Times of kernels."""

    kind: Literal["kernel_bench"] = "kernel_bench"
    """Tag."""
    timings: tuple[KernelTiming, ...]
    """One entry for each timed case, by op and case."""
    throttled_share: Fraction | None
    """Share of telemetry samples in which an accelerator throttled; None without telemetry."""

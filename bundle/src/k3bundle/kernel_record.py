"""What a kernel package said of its kernels: cases, audits, times, one line each, as it said them.

A package is asked through its own commands (its adapter), which print JSON lines. The runner keeps
what they print and how they ended; what follows from it is the verifier's.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3bundle.record import CellId, Count, Record, ShortText
from k3bundle.run import BootId

__all__ = [
    "AuditFinding",
    "AuditedKernel",
    "CheckedCase",
    "KernelCommand",
    "KernelLine",
    "TimedCase",
]

OpName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,79}$")]
"""Name of an op, for example `attn_res`."""
CaseName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Microseconds = Annotated[float, Field(ge=0, le=1e12)]
"""A duration in microseconds."""
PositiveMicroseconds = Annotated[float, Field(ge=1e-3, le=1e12)]
"""A duration in microseconds that something can be divided by."""


class CheckedCase(Record):
    """One case of an op, held against its reference."""

    kind: Literal["case"] = "case"
    """Tag."""
    boot_id: BootId
    """Boot."""
    cell_id: CellId
    """Cell."""
    op: OpName
    """The op."""
    case: CaseName
    """Name of the case, unique in its op."""
    group: OpName
    """Group of the case, for example `smoke`, `corner` or `production`."""
    outcome: Literal["passed", "failed", "errored"]
    """`failed`: it ran and its result is wrong. `errored`: it raised an error."""
    worst: float | None
    """Largest error over what is allowed; None where there is no number."""
    sentences: tuple[ShortText, ...] = Field(max_length=50)
    """What is wrong, in the package's words."""


class AuditFinding(Record):
    """One place in machine code at which a kernel may read too early."""

    code: OpName
    """Kind, for example `before-wait`."""
    at: Count
    """Byte offset in SASS, line in PTX."""
    why: ShortText
    """The finding in the package's words."""


class AuditedKernel(Record):
    """One kernel whose machine code was audited."""

    kind: Literal["audit"] = "audit"
    """Tag."""
    boot_id: BootId
    """Boot."""
    cell_id: CellId
    """Cell."""
    file: ShortText
    """File that the kernel came from."""
    kernel: ShortText
    """Symbol of the kernel."""
    architecture: str = Field(max_length=40)
    """For example `sm_90a`."""
    decided_on: Literal["SASS", "PTX"]
    """What was read; after PTX an assembler may still move reads."""
    declared: bool
    """Whether somebody declared what the kernel's parameters lead to."""
    dependent_launch: bool
    """Whether it is launched while the kernels before it may still write."""
    findings: tuple[AuditFinding, ...] = Field(max_length=1000)
    """Findings; empty for a clean kernel."""


class TimedCase(Record):
    """One case whose kernel was timed."""

    kind: Literal["timing"] = "timing"
    """Tag."""
    boot_id: BootId
    """Boot."""
    cell_id: CellId
    """Cell."""
    op: OpName
    """The op."""
    case: CaseName
    """Name of the case, unique in its op."""
    latency_us: PositiveMicroseconds
    """Median time of one launch."""
    spread_us: Microseconds
    """Slowest minus fastest repetition, per launch."""
    read_bytes: Count
    """Bytes that the case must read at least."""
    write_bytes: Count
    """Bytes that it must write at least."""
    roofline_us: Microseconds
    """Time that moving these bytes takes at the accelerator's peak bandwidth."""
    cold: bool
    """Whether the rotated buffers are larger than the cache, so that bytes come from memory."""
    read_us: PositiveMicroseconds | None
    """Time of a kernel that only reads as many bytes; None where that says little."""


class KernelCommand(Record):
    """How the adapter's command of a cell ended. Written after its lines."""

    kind: Literal["command"] = "command"
    """Tag."""
    boot_id: BootId
    """Boot."""
    cell_id: CellId
    """Cell."""
    exit_code: int = Field(ge=-255, le=255)
    """Exit status, negative for a signal; 0: everything passed, 1: something did not."""
    lines: Count
    """Lines of the cell that became records."""
    other_lines: Count
    """Lines on stdout that are no lines of this contract."""
    facts: dict[Annotated[str, StringConstraints(max_length=80)], ShortText] = Field(max_length=40)
    """What the first line says beside its case: GPU, driver, versions, commit."""
    unread_lines: Count = 0
    """Lines that have the form of an answer and hold none: each could be a case that failed."""
    unread: tuple[ShortText, ...] = Field(default=(), max_length=20)
    """The first of them, each as a sentence that says which line and what is wrong with it."""


KernelLine = Annotated[
    CheckedCase | AuditedKernel | TimedCase | KernelCommand, Field(discriminator="kind")
]
"""One line of `kernels.jsonl`."""

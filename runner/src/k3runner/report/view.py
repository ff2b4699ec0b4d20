"""What a report shows, as plain values: no records, no markup. Every form renders from these."""

from dataclasses import dataclass

from k3runner.report.isolation import AuditView, SeparationRow
from k3runner.report.kernels import KernelsView
from k3runner.report.machine import MachineView
from k3runner.report.rates import RateChart
from k3runner.status_mark import Status
from k3runner.wording import Quantity

__all__ = [
    "BootDot",
    "CellRow",
    "ClaimCard",
    "CoverageBar",
    "FactGroup",
    "HeadlineView",
    "IntervalRow",
    "RatioRow",
    "ReportView",
    "SealView",
    "ServingChart",
    "TokenRow",
]


@dataclass(frozen=True)
class ClaimCard:
    """One of the four claims."""

    name: str
    question: str
    status: Status
    sentence: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class HeadlineView:
    """A number shown first."""

    quantity: Quantity
    label: str
    cell_id: str | None


@dataclass(frozen=True)
class CellRow:
    """One cell: its result, why, and the numbers of its kind as label and value."""

    cell_id: str
    kind: str
    asks: str
    """What the cell asks of the engine, in a phrase."""
    status: Status
    cause: str | None
    """Stable name of the cause of an INVALID cell."""
    reason: str
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BootDot:
    """One boot's value in a chart."""

    slot: int
    arm: str
    pair: int
    value: float | None


@dataclass(frozen=True)
class ServingChart:
    """One metric of one serving cell over the boots, in boot order."""

    cell_id: str
    metric: str
    unit: str
    better: str
    dots: tuple[BootDot, ...]


@dataclass(frozen=True)
class IntervalRow:
    """Candidate / baseline ratio of one metric in one serving cell."""

    cell_id: str
    metric: str
    pairs: int
    ratio: float
    lower: float | None
    upper: float | None
    confidence: float
    minimum_detectable_effect: float | None
    judged: bool


@dataclass(frozen=True)
class RatioRow:
    """Candidate / baseline throughput of one serving cell, beside what it is held against."""

    cell_id: str
    deployment: str
    status: Status
    asked: str
    """What the cell has to show about speed, in words."""
    threshold: float | None
    """What the bounds are held against; None where the cell's speed is not judged."""
    interval: IntervalRow


@dataclass(frozen=True)
class CoverageBar:
    """Decode steps of one cell, summed over the boots of one arm."""

    cell_id: str
    arm: str
    expected_path: str
    expected_steps: int
    decode_steps: int
    available: bool
    fallback_reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TokenRow:
    """When the tokens of one request arrived, in milliseconds after it was sent."""

    slot: int
    arm: str
    at_ms: tuple[float, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class FactGroup:
    """A titled list of facts."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SealView:
    """What is known about the sealed bundle; None in the view of an unsealed run folder."""

    bundle_sha256: str
    signer: str | None
    sealed_at_utc: str
    file_name: str


@dataclass(frozen=True)
class ReportView:
    """Everything that a report shows."""

    repository: str
    pull_request: int
    commit_sha: str
    tier: str
    subject: str
    only: tuple[str, ...]
    """Deployments that the plan was restricted to by request."""
    looser: tuple[str, ...]
    """In what the plan asks for less than its tier."""
    status: Status
    sentence: str
    trust: str
    trust_sentence: str
    resumed: bool
    created_at_utc: str
    claims: tuple[ClaimCard, ...]
    headline: tuple[HeadlineView, ...]
    cells: tuple[CellRow, ...]
    charts: tuple[ServingChart, ...]
    intervals: tuple[IntervalRow, ...]
    ratios: tuple[RatioRow, ...]
    """Throughput alone, one row for each serving cell."""
    rates: tuple[RateChart, ...]
    coverage: tuple[CoverageBar, ...]
    minimum_coverage: float
    token_cell: str | None
    tokens: tuple[TokenRow, ...]
    audit: AuditView | None
    """None: no audit of the change is in the bundle."""
    separation: tuple[SeparationRow, ...]
    machine: MachineView
    kernels: KernelsView
    boots: tuple[tuple[str, ...], ...]
    """Rows of the boots table: boot, arm, backend, attempt, ready after, how it ended."""
    attempts: tuple[tuple[str, ...], ...]
    """Rows of the attempts table: number, start, kind, torn lines dropped."""
    facts: tuple[FactGroup, ...]
    packages: tuple[tuple[str, str], ...]
    limits: tuple[str, ...]
    seal: SealView | None
    plan_sha256: str
    commands: tuple[tuple[str, str], ...]
    """How to do it again: what it does, and the command."""

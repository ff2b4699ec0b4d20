"""What the registry keeps of a verified bundle to show it without opening the archive again.

Both records are made inside the verifier's process and cross to the registry as JSON, so the
registry itself never parses what a stranger sent.
"""

from typing import Literal

from pydantic import Field

from k3bundle.environment import NodeFacts
from k3bundle.manifest import Manifest
from k3bundle.plan import Plan, TierName
from k3bundle.record import Count, Record, Sha256, ShortText
from k3bundle.run import AttemptRecord, BootEvent
from k3bundle.scrub import ScrubReport
from k3bundle.subject import SubjectFacts
from k3bundle.verdict import Claim, HeadlineNumber, Verdict

__all__ = ["SubmissionDocument", "SubmissionSummary", "summarise"]


class SubmissionDocument(Record):
    """Everything that the page of a submission shows."""

    document_version: Literal["1"] = "1"
    """Format of this record; the archive stays, so another version can be made from it."""
    bundle_sha256: Sha256
    """Digest of the bundle: of its manifest."""
    signer_fingerprint: str = Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")
    """Fingerprint of the SSH key that signed the bundle."""
    manifest: Manifest
    """The root record, with the run's identity and every file."""
    plan: Plan
    """What was decided before the first boot."""
    subject: SubjectFacts
    """What was evaluated."""
    environment: NodeFacts
    """Where it was evaluated."""
    attempts: tuple[AttemptRecord, ...]
    """Starts of the runner."""
    boots: tuple[BootEvent, ...]
    """Starts of the engine."""
    scrub: ScrubReport
    """What was replaced before sealing."""
    verdict: Verdict
    """The verdict as the verifier derived it from the raw records."""


class SubmissionSummary(Record):
    """What lists show of a submission."""

    tier: TierName
    """Tier that was run."""
    subject: ShortText
    """Name of the subject definition."""
    status: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]
    """Verdict status."""
    sentence: ShortText
    """The verdict in one sentence."""
    claims: tuple[Claim, ...]
    """The four claims."""
    headline: tuple[HeadlineNumber, ...]
    """Numbers shown first."""
    resumed: bool
    """Whether the run was interrupted and resumed."""
    engine: ShortText
    """Engine name and version."""
    processor: ShortText
    """GPUs, or the CPU where there is none; with the machines where there are several."""
    cell_count: Count
    """Planned cells."""


def summarise(document: SubmissionDocument) -> SubmissionSummary:
    """The list view of a submission."""
    verdict = document.verdict
    return SubmissionSummary(
        tier=document.plan.tier,
        subject=document.plan.subject,
        status=verdict.status,
        sentence=verdict.sentence,
        claims=verdict.claims,
        headline=verdict.headline,
        resumed=verdict.resumed,
        engine=f"{document.subject.engine.name} {document.subject.engine.version}",
        processor=_processor(document.environment)[:2000],
        cell_count=len(verdict.cells),
    )


def _processor(node: NodeFacts) -> str:
    machines = "" if node.node_count == 1 else f"{node.node_count} machines, each with "
    if not node.gpus:
        return f"{machines}{node.cpu_model}, {node.cpu_count} CPUs"
    names = sorted({gpu.name for gpu in node.gpus})
    return f"{machines}{len(node.gpus)} x {', '.join(names)}"

"""Submissions as the index keeps them."""

from dataclasses import dataclass
from datetime import datetime

from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument, SubmissionSummary
from k3server.trust import Attribution, NonceStanding, Space, State, TrustLevel

__all__ = ["NewSubmission", "Submission", "SubmissionRow"]


@dataclass(frozen=True)
class NewSubmission:
    """A verified submission before the index has seen it."""

    document: SubmissionDocument
    """What the verifier made of the bundle."""
    blob_sha256: str
    """Digest of the archive in the store."""
    blob_size_bytes: int
    """Size of the archive in bytes."""
    received_at: datetime
    """When it arrived, in UTC, by the registry's clock."""
    attribution: Attribution | None = None
    """Who stands behind it; None: nobody is known."""


@dataclass(frozen=True)
class SubmissionRow:
    """One submission as lists show it."""

    sequence: int
    """Position in order of arrival, from 1."""
    bundle_sha256: str
    """Digest of the bundle; the identity of the submission."""
    blob_sha256: str
    """Digest of the archive in the store."""
    blob_size_bytes: int
    """Size of the archive in bytes."""
    change: ChangeUnderTest
    """The change that it is evidence for."""
    trust: TrustLevel
    """How far its numbers can be believed, now."""
    identity: str | None
    """Who stands behind it; None: nobody is known."""
    organisation: str | None
    """Organisation of who stands behind it, as an operator noted it."""
    space: Space
    """Whether it counts, or is in the playground."""
    state: State
    """What was decided about it."""
    reason: str | None
    """Why, where something was decided."""
    nonce_standing: NonceStanding
    """Where the nonce comes from."""
    received_at: datetime
    """When it arrived, in UTC."""
    summary: SubmissionSummary
    """Verdict, claims and headline numbers."""

    def __hash__(self) -> int:
        """By what tells submissions and their states apart; equality still compares everything."""
        return hash((self.bundle_sha256, self.trust, self.state))


@dataclass(frozen=True)
class Submission:
    """One submission with everything its page shows."""

    row: SubmissionRow
    """What lists show."""
    document: SubmissionDocument
    """Everything else."""

"""What crosses the wire as JSON: requests and answers of the API."""

from typing import Literal

from pydantic import Field

from k3bundle.record import (
    MAX_SAFE_INTEGER,
    CommitSha,
    Count,
    Record,
    RepositoryName,
    Sha256,
    ShortText,
    UtcTimestamp,
)
from k3bundle.subject import ChangeUnderTest
from k3bundle.verdict import Claim, HeadlineNumber, RatioInterval
from k3server.submission import SubmissionRow
from k3server.trust import NonceStanding, NonceTicket, Space, State, TrustLevel
from k3server.views.comparison_view import ComparisonView

__all__ = [
    "BlobAnswer",
    "CellAnswer",
    "ComparisonAnswer",
    "FindingAnswer",
    "HealthAnswer",
    "ListAnswer",
    "NonceAnswer",
    "NonceRequest",
    "ProblemAnswer",
    "RatioAnswer",
    "RetractionRequest",
    "SubmissionAnswer",
    "SubmissionRequest",
    "UploadAnswer",
    "UploadRequest",
    "comparison_answer",
    "list_answer",
    "nonce_answer",
    "submission_answer",
]

VerdictStatus = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]


class SubmissionRequest(Record):
    """Make a submission of an archive that was sent before."""

    blob_sha256: Sha256
    """Digest of the archive file."""
    repository: RepositoryName
    """Repository of the pull request."""
    pull_request: int = Field(ge=1, le=10_000_000)
    """Number of the pull request."""
    commit_sha: CommitSha
    """Full SHA of the evaluated commit."""
    github_account: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?$"
    )
    """GitHub account that publishes the key that signed the bundle; None: none is named."""

    def change(self) -> ChangeUnderTest:
        """The change that is named."""
        return ChangeUnderTest(
            repository=self.repository,
            pull_request=self.pull_request,
            commit_sha=self.commit_sha,
        )


class NonceRequest(Record):
    """Ask for a nonce before a run."""

    repository: RepositoryName
    """Repository of the pull request."""
    pull_request: int = Field(ge=1, le=10_000_000)
    """Number of the pull request."""
    commit_sha: CommitSha
    """Full SHA of the commit that will be evaluated."""
    plan_sha256: Sha256
    """Digest of the plan that will be run."""
    signer: str = Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")
    """Fingerprint of the key that will sign the bundle; under another key the nonce is foreign."""

    def change(self) -> ChangeUnderTest:
        """The change that is named."""
        return ChangeUnderTest(
            repository=self.repository,
            pull_request=self.pull_request,
            commit_sha=self.commit_sha,
        )


class BlobAnswer(Record):
    """An archive is in the store."""

    sha256: Sha256
    """Its digest."""
    size_bytes: Count
    """Its size in bytes."""


class UploadRequest(Record):
    """Open an upload in parts."""

    blob_sha256: Sha256
    """Digest of the whole archive file."""
    size_bytes: int = Field(ge=1, le=MAX_SAFE_INTEGER)
    """Its size in bytes."""


class UploadAnswer(Record):
    """An upload in parts."""

    upload_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    """Identity of the upload."""
    blob_sha256: Sha256
    """Digest of the whole archive file."""
    size_bytes: Count
    """Its size in bytes."""
    part_size_bytes: Count
    """Size of every part but the last, in bytes."""
    part_count: Count
    """Number of parts."""
    received: tuple[Count, ...]
    """Numbers of the parts that arrived, from 1, ascending."""
    expires_at_utc: UtcTimestamp
    """When the upload is forgotten."""


class NonceAnswer(Record):
    """A nonce that this registry issued."""

    nonce: Sha256
    """The nonce."""
    expires_at_utc: UtcTimestamp
    """When it stops counting."""


class SubmissionAnswer(Record):
    """A submission."""

    submission_id: Sha256
    """Identity: the digest of the bundle."""
    url: str
    """Address of its page."""
    bundle_sha256: Sha256
    """Digest of the bundle: of its manifest."""
    blob_sha256: Sha256
    """Digest of the archive that can be downloaded."""
    repository: RepositoryName
    """Repository of the pull request."""
    pull_request: int
    """Number of the pull request."""
    commit_sha: CommitSha
    """The evaluated commit."""
    tier: str
    """Tier that was run."""
    subject: str
    """Name of the subject definition."""
    verdict: VerdictStatus
    """Verdict status, derived from the raw records."""
    sentence: ShortText
    """The verdict in one sentence."""
    claims: tuple[Claim, ...]
    """The four claims."""
    headline: tuple[HeadlineNumber, ...]
    """Numbers shown first."""
    resumed: bool
    """Whether the run was interrupted and resumed."""
    trust: TrustLevel
    """How far its numbers can be believed; holds for every number of the submission."""
    identity: str | None
    """Who stands behind it: `token:ACCOUNT`, `github:ACCOUNT`, `key:SHA256:...`; None: nobody."""
    space: Space
    """`main`, or `playground` while nobody stands behind it."""
    state: State
    """What an operator decided about it."""
    reason: str | None
    """Why, where something was decided."""
    nonce: NonceStanding
    """Where the nonce comes from."""
    received_at_utc: UtcTimestamp
    """When it arrived, by the registry's clock."""


class RatioAnswer(Record):
    """One ratio of candidate to baseline in both submissions."""

    cell_id: str
    """Cell."""
    metric: str
    """Number."""
    one: RatioInterval | None
    """In the first submission."""
    other: RatioInterval | None
    """In the second submission."""


class CellAnswer(Record):
    """One cell in both submissions."""

    cell_id: str
    """Cell."""
    one: str | None
    """Status in the first submission; None when it has no such cell."""
    other: str | None
    """Status in the second submission."""


class ComparisonAnswer(Record):
    """Two submissions side by side, or why they are not."""

    comparable: bool
    """Whether a difference of their numbers says something about the change."""
    reasons: tuple[str, ...]
    """Why not, in sentences."""
    agree: bool
    """Whether one reproduces the other by the stated equivalence test."""
    disagreements: tuple[str, ...]
    """Why not, in sentences."""
    independent: bool
    """Whether they come from contributors who share no key, identity, organisation or
    accelerator."""
    one: SubmissionAnswer
    """The first submission."""
    other: SubmissionAnswer
    """The second submission."""
    cells: tuple[CellAnswer, ...]
    """Every cell; empty when they cannot be compared."""
    ratios: tuple[RatioAnswer, ...]
    """Every ratio; empty when they cannot be compared."""


class ListAnswer(Record):
    """Submissions, newest first."""

    submissions: tuple[SubmissionAnswer, ...]
    """At most one page of them."""
    next_before: Count | None
    """Value of `before` for the next page; None at the end."""


class RetractionRequest(Record):
    """Take a submission back."""

    reason: str = Field(min_length=1, max_length=500)
    """Why, in a sentence that is shown."""


class HealthAnswer(Record):
    """The registry answers."""

    status: Literal["ok"] = "ok"
    """Always `ok`."""


class FindingAnswer(Record):
    """One reason for a refusal."""

    code: str
    """Stable name."""
    where: str
    """File, record or request field."""
    why: str
    """What was expected and what was found."""
    hint: str
    """The next step."""


class ProblemAnswer(Record):
    """An error, as RFC 9457 describes it."""

    type: str
    """Always `about:blank`: the status and the findings' codes say what kind it is."""
    title: str
    """The kind of problem."""
    status: int
    """HTTP status."""
    detail: str
    """This problem, in a sentence, with the next step."""
    findings: tuple[FindingAnswer, ...]
    """Every reason, where there are several."""


def submission_answer(row: SubmissionRow, public_url: str) -> SubmissionAnswer:
    """A submission as the API shows it."""
    summary = row.summary
    return SubmissionAnswer(
        submission_id=row.bundle_sha256,
        url=f"{public_url}/submissions/{row.bundle_sha256}",
        bundle_sha256=row.bundle_sha256,
        blob_sha256=row.blob_sha256,
        repository=row.change.repository,
        pull_request=row.change.pull_request,
        commit_sha=row.change.commit_sha,
        tier=summary.tier,
        subject=summary.subject,
        verdict=summary.status,
        sentence=summary.sentence,
        claims=summary.claims,
        headline=summary.headline,
        resumed=summary.resumed,
        trust=row.trust,
        identity=row.identity,
        space=row.space,
        state=row.state,
        reason=row.reason,
        nonce=row.nonce_standing,
        received_at_utc=row.received_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


def comparison_answer(view: ComparisonView, public_url: str) -> ComparisonAnswer:
    """A comparison as the API shows it."""
    return ComparisonAnswer(
        comparable=not view.reasons,
        reasons=view.reasons,
        agree=not view.disagreements,
        disagreements=view.disagreements,
        independent=view.independent,
        one=submission_answer(view.one.row, public_url),
        other=submission_answer(view.other.row, public_url),
        cells=tuple(CellAnswer(**vars(pair)) for pair in view.cells),
        ratios=tuple(RatioAnswer(**vars(pair)) for pair in view.ratios),
    )


def list_answer(rows: tuple[SubmissionRow, ...], public_url: str, *, limit: int) -> ListAnswer:
    """A page of submissions; a full page has a next one."""
    return ListAnswer(
        submissions=tuple(submission_answer(row, public_url) for row in rows),
        next_before=rows[-1].sequence if len(rows) == limit else None,
    )


def nonce_answer(ticket: NonceTicket) -> NonceAnswer:
    """A nonce as the API hands it out."""
    return NonceAnswer(
        nonce=ticket.nonce, expires_at_utc=ticket.expires_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    )

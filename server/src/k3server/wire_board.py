"""What crosses the wire about the board."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from k3bundle.plan import TierName
from k3bundle.record import (
    CellId,
    CommitSha,
    Record,
    RepositoryName,
    Sha256,
    UtcTimestamp,
)
from k3bundle.subject import ChangeUnderTest
from k3server.board_ports import Wanted

__all__ = ["BoardAnswer", "WantedAnswer", "WantedRequest", "wanted_answer"]


class WantedRequest(Record):
    """Ask for evidence."""

    repository: RepositoryName
    """Repository of the pull request."""
    pull_request: int = Field(ge=1, le=10_000_000)
    """Number of the pull request."""
    commit_sha: CommitSha
    """Full SHA of the commit that is to be evaluated."""
    tier: TierName
    """Tier that is to be run."""
    subject: str = Field(min_length=1, max_length=80)
    """Name of the subject."""
    cell_id: CellId | None = None
    """Cell that is to be PASS; None: the verdict as a whole."""
    note: str = Field(default="", max_length=500)
    """What else matters, for example the kind of machine."""

    def change(self) -> ChangeUnderTest:
        """The change that is named."""
        return ChangeUnderTest(
            repository=self.repository,
            pull_request=self.pull_request,
            commit_sha=self.commit_sha,
        )


class WantedAnswer(Record):
    """Evidence that is wanted."""

    wanted_id: str
    """Identity on the board."""
    repository: RepositoryName
    """Repository of the pull request, in lower case."""
    pull_request: int
    """Number of the pull request."""
    commit_sha: CommitSha
    """Commit that is to be evaluated."""
    tier: str
    """Tier that is to be run."""
    subject: str
    """Name of the subject."""
    cell_id: str | None
    """Cell that is to be PASS; None: the verdict as a whole."""
    note: str
    """What else matters."""
    state: Literal["open", "claimed", "fulfilled"]
    """`fulfilled`: a submission that counts is a PASS of this tier and subject on this commit."""
    claimed_by: str | None
    """Who brings it, while the claim holds."""
    claimed_until_utc: UtcTimestamp | None
    """When the claim ends on its own."""
    fulfilled_by: Sha256 | None
    """The submission."""


class BoardAnswer(Record):
    """What is wanted."""

    wanted: tuple[WantedAnswer, ...]
    """The newest first."""


def wanted_answer(wanted: Wanted, now: datetime) -> WantedAnswer:
    """Something on the board as the API shows it."""
    claimed = wanted.is_claimed(now)
    until = wanted.claimed_until if claimed else None
    return WantedAnswer(
        wanted_id=wanted.wanted_id,
        repository=wanted.change.repository,
        pull_request=wanted.change.pull_request,
        commit_sha=wanted.change.commit_sha,
        tier=wanted.tier,
        subject=wanted.subject,
        cell_id=wanted.cell_id or None,
        note=wanted.note,
        state="fulfilled" if wanted.fulfilled_by else "claimed" if claimed else "open",
        claimed_by=wanted.claimed_by if claimed else None,
        claimed_until_utc=None if until is None else until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        fulfilled_by=wanted.fulfilled_by,
    )

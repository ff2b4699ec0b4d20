"""What the registry needs to remember of the forge that holds the pull requests."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

__all__ = ["Notice", "Outbox", "PullState"]


@dataclass(frozen=True)
class Notice:
    """A pull request of which the forge is to be told."""

    repository: str
    """`owner/name` in lower case."""
    pull_request: int
    """Its number."""
    generation: int
    """Grows each time something happens; a notice is done only when nothing happened meanwhile."""
    attempts: int
    """Failed attempts since something happened last."""


@dataclass(frozen=True)
class PullState:
    """A pull request as the forge described it last."""

    head_sha: str
    """Its head."""
    is_open: bool
    """Whether it can still be merged."""
    told_sha256: str
    """Digest of status and comment that the forge has; empty when it has none."""
    checked_at: datetime
    """When it was asked, in UTC."""


class Outbox(Protocol):
    """What is still to be told, and what was said."""

    def note(self, repository: str, pull_request: int, at: datetime) -> None:
        """Something may have happened to a pull request. Repository names ignore case."""
        ...

    def due(self, now: datetime, *, limit: int, lease_s: float) -> tuple[Notice, ...]:
        """Notices whose time has come; nobody else gets them within the lease."""
        ...

    def done(self, notice: Notice) -> None:
        """The forge was told; the notice goes, unless something happened meanwhile."""
        ...

    def put_off(self, notice: Notice, until: datetime, problem: str) -> None:
        """The forge could not be told; try again later."""
        ...

    def waiting(self) -> int:
        """Number of notices."""
        ...

    def keep_pull(self, repository: str, pull_request: int, state: PullState) -> None:
        """Remember what the forge said and was told."""
        ...

    def pull(self, repository: str, pull_request: int) -> PullState | None:
        """What the forge said last; None when it was never asked."""
        ...

    def is_first_delivery(self, guid: str, at: datetime) -> bool:
        """Remember a delivery; False when it came before."""
        ...

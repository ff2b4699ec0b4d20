"""What the registry needs for its board of wanted evidence."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from k3bundle.subject import ChangeUnderTest

__all__ = ["Board", "Wanted"]


@dataclass(frozen=True)
class Wanted:
    """Evidence that somebody asked for."""

    wanted_id: str
    """16 lower-case hexadecimal digits."""
    change: ChangeUnderTest
    """The change that it is wanted for."""
    tier: str
    """Tier that is to be run."""
    subject: str
    """Name of the subject."""
    cell_id: str
    """Cell that is to be PASS; empty: the verdict as a whole."""
    note: str
    """What else matters, for example the kind of machine."""
    asked_by: str
    """Who asked."""
    asked_at: datetime
    """When, in UTC."""
    claimed_by: str | None = None
    """Who said that they will bring it."""
    claimed_until: datetime | None = None
    """When the claim ends on its own, in UTC."""
    fulfilled_by: str | None = None
    """Submission that brings it: one that counts, of this change, tier and subject."""

    def is_claimed(self, now: datetime) -> bool:
        """Whether somebody works on it now."""
        return self.claimed_until is not None and now < self.claimed_until


class Board(Protocol):
    """Wanted evidence. The database decides who of two gets a claim."""

    def ask(self, wanted: Wanted) -> Wanted:
        """Put something on the board; or get the same thing that is there."""
        ...

    def claim(self, wanted_id: str, identity: str, *, now: datetime, until: datetime) -> bool:
        """Claim, or claim for longer; False when somebody else works on it.

        Raises:
            KeyError: There is no such thing on the board.
        """
        ...

    def release(self, wanted_id: str, identity: str | None, now: datetime) -> bool:
        """Give a claim back; False when `identity` has none. None: whoever has it.

        Raises:
            KeyError: There is no such thing on the board.
        """
        ...

    def close(self, wanted_id: str, now: datetime) -> bool:
        """Take something off the board; False when it is not there."""
        ...

    def wanted(self, *, limit: int) -> tuple[Wanted, ...]:
        """What is on the board, the newest first."""
        ...

    def one(self, wanted_id: str) -> Wanted | None:
        """One thing on the board."""
        ...

"""A clock that a test sets."""

from datetime import UTC, datetime, timedelta

__all__ = ["FixedClock"]


class FixedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 2, 5, 0, tzinfo=UTC)

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on."""
        self._now += timedelta(seconds=seconds)

"""The clock of the machine."""

from datetime import UTC, datetime

__all__ = ["SystemClock"]


class SystemClock:
    """Reads the system's time of day."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC)

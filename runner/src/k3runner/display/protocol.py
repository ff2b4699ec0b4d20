"""What every display is: a listener of events, open for the length of a run."""

from types import TracebackType
from typing import Protocol, Self

from k3runner.events import Event

__all__ = ["Display"]


class Display(Protocol):
    """Listens to the events of one run."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was; called on success, error and Ctrl-C."""
        ...

    def show(self, event: Event) -> None:
        """Take one event. Must return quickly: it runs between measurements."""
        ...

"""One line per event with the time since the start, for logs and pipes."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from k3runner.display.sentences import sentence, verdict_lines
from k3runner.events import BootWaiting, CellProgress, Event, RunFinished

__all__ = ["PlainDisplay"]

_REPEAT_AFTER_S: Final = 10.0
"""Events that only say "still going" are printed this often, at most."""


class PlainDisplay:
    """Writes one line per event; understandable without colour and without a terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._opened_at = clock()
        self._printed_at = self._opened_at

    def __enter__(self) -> Self:
        """Begin to show."""
        self._opened_at = self._printed_at = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to undo."""

    def show(self, event: Event) -> None:
        """Write the event's line, unless it only repeats that something goes on."""
        now = self._clock()
        repeats = isinstance(event, BootWaiting | CellProgress)
        if repeats and now - self._printed_at < _REPEAT_AFTER_S:
            return
        self._printed_at = now
        self._write(now, sentence(event))
        if isinstance(event, RunFinished):
            for line in verdict_lines(event.verdict):
                self._write(now, f"  {line}")

    def _write(self, now: float, line: str) -> None:
        self._stream.write(f"[{now - self._opened_at:7.1f} s] {line}\n")
        self._stream.flush()

"""The live display: boots as a timeline, cells as bars, the verdict as a panel at the end."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live

from k3runner.display.drawing import draw, draw_verdict
from k3runner.display.progress import Progress
from k3runner.events import Event, Remark
from k3runner.visible import visible

__all__ = ["LiveDisplay"]

_FRAMES_PER_SECOND: Final = 4
"""Few, because drawing takes time from the load client in the same process."""


class LiveDisplay:
    """Redraws one region of the terminal while the run goes on."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._progress = Progress(started_at_s=clock())
        self._console = Console(file=stream, highlight=False)
        self._live = Live(
            self, console=self._console, refresh_per_second=_FRAMES_PER_SECOND, transient=False
        )

    def __enter__(self) -> Self:
        """Begin to draw; the cursor is hidden until the display is closed."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing, give the cursor back, and leave the verdict on the screen."""
        self._live.stop()
        if self._progress.verdict is not None:
            self._console.print(draw_verdict(self._progress))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the run at this moment."""
        yield draw(self._progress, self._clock(), options.max_width)

    def show(self, event: Event) -> None:
        """Take the event; remarks are printed above, so that they stay."""
        self._progress.take(event, self._clock())
        if isinstance(event, Remark):
            self._console.print(f"  note: {visible(event.text)}", markup=False, style="dim")

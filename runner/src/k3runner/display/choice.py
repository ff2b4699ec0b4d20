"""Chooses how a run is shown: JSON lines for programs, live for a terminal, else plain lines."""

import os
from collections.abc import Callable
from typing import TextIO

from k3runner.display.jsonl import JsonlDisplay
from k3runner.display.plain import PlainDisplay
from k3runner.display.protocol import Display

__all__ = ["choose_display"]


def choose_display(
    *,
    events: bool,
    plain: bool,
    stdout: TextIO,
    stderr: TextIO,
    clock: Callable[[], float],
) -> Display:
    """Return the display for these flags and streams.

    Args:
        events: JSON lines on stdout, nothing on stderr.
        plain: Plain lines even where stderr is a terminal.
        stdout: Gets data.
        stderr: Gets words; live only when it is a terminal that can draw.
        clock: Monotonic time in seconds.
    """
    if events:
        return JsonlDisplay(stdout, clock)
    if plain or not _can_draw(stderr):
        return PlainDisplay(stderr, clock)
    # Imported here because a pipe never needs it, and it takes a third of a second.
    from k3runner.display.live import LiveDisplay  # noqa: PLC0415

    return LiveDisplay(stderr, clock)


def _can_draw(stream: TextIO) -> bool:
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return stream.isatty() and encoding == "utf8" and os.environ.get("TERM") != "dumb"

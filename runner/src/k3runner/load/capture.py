"""What one exchange left: bytes as they came, with the time of each piece. Nothing is parsed here.

Bytes go into one buffer and times into flat arrays, so that the receiving side makes no object per
event and a capture crosses a process at the cost of a copy.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Capture", "Ending", "Shot"]

Ending = Literal["complete", "closed", "timeout", "unreachable", "malformed"]
"""`complete`: the response ended as HTTP says. `closed`: the connection ended before that.
`timeout`: no progress for too long. `unreachable`: no connection. `malformed`: not HTTP."""


@dataclass(frozen=True)
class Shot:
    """One request, ready to send."""

    number: int
    """Names it; the capture has the same number."""
    payload: bytes
    """The whole HTTP request."""
    due_ns: int | None = None
    """When to send it, since the start of the phase; None: as soon as a stream is free."""


@dataclass
class Capture:
    """One exchange. Times are of `time.monotonic_ns`, which all processes of a machine share."""

    number: int
    """Number of the shot."""
    sent_ns: int
    """When it was sent, before a connection was made where one was needed."""
    due_ns: int | None = None
    """When it was due; None for a closed loop."""
    ended_ns: int = 0
    """When it ended."""
    status: int = 0
    """HTTP status; 0 when none came."""
    ending: Ending = "closed"
    """How it ended."""
    detail: str = ""
    """What went wrong, in a few words; empty when nothing did."""
    chunked: bool = False
    """Whether the content still has the framing of HTTP chunks; `bodies` takes it off later."""
    content: bytearray = field(default_factory=bytearray)
    """The body as it came."""
    stamps: "array[int]" = field(default_factory=lambda: array("q"))
    """When each piece was received."""
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    """Where each piece ends in the content."""
    progress_ns: int = 0
    """When the last piece that is no comment came; the time of sending before the first."""

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """(time received, bytes) of each piece, in order."""
        start = 0
        content = bytes(self.content)
        for stamp, end in zip(self.stamps, self.ends, strict=True):
            yield stamp, content[start:end]
            start = end

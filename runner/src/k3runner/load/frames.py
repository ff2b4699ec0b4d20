"""Messages between the runner and the processes of its load client, over a socket pair.

Both ends are started by the same runner from the same files, so pickle is used: a message holds the
bytes of thousands of events, and any text form would cost more than receiving them did.
"""

import asyncio
import pickle
import struct
from dataclasses import dataclass
from typing import Any

from k3runner.load.capture import Capture
from k3runner.load.driver import Phase, PhaseStats

__all__ = [
    "Beat",
    "Go",
    "Hold",
    "PhaseEnded",
    "Ready",
    "Stop",
    "ToRunner",
    "ToWorker",
    "read_frame",
    "write_frame",
]

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class Ready:
    """The phase has arrived."""


@dataclass(frozen=True)
class Go:
    """Start the phase."""

    start_ns: int
    """When, on the monotonic clock: all processes start as one."""


@dataclass(frozen=True)
class Hold:
    """Send nothing more, and let nothing time out."""

    detail: str
    """Why."""


@dataclass(frozen=True)
class Stop:
    """End what is in flight, after `Hold`."""


@dataclass(frozen=True)
class Beat:
    """Sent several times a second during a phase."""

    at_ns: int
    """When, on the monotonic clock."""
    in_flight: int
    """Requests in flight."""
    progress_ns: int
    """Latest progress on any of them, on the monotonic clock."""


@dataclass(frozen=True)
class PhaseEnded:
    """The phase is over; its captures were sent before."""

    stats: PhaseStats
    """What the process saw of itself."""


ToWorker = Phase | Go | Hold | Stop
ToRunner = Capture | Ready | Beat | PhaseEnded


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """The next message; None when the other end is gone."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))  # noqa: S301
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def write_frame(writer: asyncio.StreamWriter, message: ToWorker | ToRunner) -> None:
    """Sends a message; it is buffered, so this never waits."""
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    writer.write(_LENGTH.pack(len(content)))
    writer.write(content)

"""Sends the shots of one phase in one process: so many streams at once, or each when it is due."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from k3runner.load.address import Address
from k3runner.load.capture import Capture, Shot
from k3runner.load.connection import Connection, ConnectionPool
from k3runner.load.loop_lag import LoopLag

__all__ = ["Driver", "Phase", "PhaseStats"]

_LATE = 2.0
"""A single stream times out after this many idle limits: a whole engine that hangs is noticed after
one, while its requests are still there to be looked at."""


@dataclass(frozen=True)
class Phase:
    """What one process sends without a pause."""

    address: Address
    """Where to."""
    shots: tuple[Shot, ...]
    """What, in order."""
    streams: int
    """Requests in flight: exactly so many without due times, at most so many with them."""
    idle_limit_ns: int
    """Longest time without progress on a stream."""


@dataclass(frozen=True)
class PhaseStats:
    """What a process saw of itself during a phase."""

    requests: int
    """Requests that were sent."""
    received_bytes: int
    """Bytes of bodies, with the framing of chunks."""
    received_pieces: int
    """Reads in which they came."""
    wall_ns: int
    """From start to end."""
    cpu_ns: int
    """CPU time of the process."""
    lag_ns: tuple[int, ...]
    """Samples of the lag of its event loop."""


class Driver:
    """One phase. Nothing that a server does raises."""

    def __init__(
        self, pool: ConnectionPool, phase: Phase, report: Callable[[Capture], None]
    ) -> None:
        """Prepares a phase.

        Args:
            pool: Connections to the phase's address.
            phase: What to send.
            report: Called with every capture as it ends.
        """
        self._pool = pool
        self._phase = phase
        self._report = report
        self._queue = deque(phase.shots)
        self._flying: dict[Connection, Capture] = {}
        self._connecting = 0
        self._held: str | None = None
        self._start_ns = 0
        self._sent = self._bytes = self._pieces = 0

    @property
    def idle_limit_ns(self) -> int:
        """Longest time without progress on a stream."""
        return self._phase.idle_limit_ns

    @property
    def in_flight(self) -> int:
        """Requests that were sent and have not ended."""
        return len(self._flying) + self._connecting

    @property
    def progress_ns(self) -> int:
        """Latest progress on any stream in flight; 0 when none is."""
        return max((capture.progress_ns for capture in self._flying.values()), default=0)

    def _received(self) -> int:
        return self._pieces + sum(len(one.stamps) for one in self._flying.values())

    def hold(self, detail: str) -> None:
        """Sends nothing more and lets nothing time out; what is in flight stays so.

        Args:
            detail: Why. A connection that the server cuts from now on counts as timed out: it is
                cut because a hung server is being looked at, and that ends it.
        """
        self._held = detail
        self._queue.clear()

    def stop(self) -> None:
        """Ends what is in flight as timed out, after `hold`."""
        for connection in tuple(self._flying):
            connection.end("timeout", self._held or "stopped")

    async def run(self, start_ns: int) -> PhaseStats:
        """Sends everything, and waits until everything has ended.

        Args:
            start_ns: Moment of the monotonic clock before which nothing is sent.
        """
        self._start_ns = start_ns
        await _until(start_ns)
        began_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        watch = asyncio.create_task(self._time_out_streams())
        with LoopLag(self._received) as lag:
            try:
                async with asyncio.TaskGroup() as group:
                    if any(shot.due_ns is not None for shot in self._phase.shots):
                        group.create_task(self._on_schedule(group))
                    else:
                        for _ in range(min(self._phase.streams, len(self._queue))):
                            group.create_task(self._stream_after_stream())
            finally:
                watch.cancel()
        return PhaseStats(
            requests=self._sent,
            received_bytes=self._bytes,
            received_pieces=self._pieces,
            wall_ns=time.monotonic_ns() - began_ns,
            cpu_ns=time.process_time_ns() - cpu_ns,
            lag_ns=tuple(lag.samples_ns),
        )

    async def _stream_after_stream(self) -> None:
        while self._queue:
            await self._exchange(self._queue.popleft())

    async def _on_schedule(self, group: asyncio.TaskGroup) -> None:
        free = asyncio.Semaphore(self._phase.streams)

        async def one(shot: Shot) -> None:
            try:
                await self._exchange(shot)
            finally:
                free.release()

        while self._queue:
            await _until(self._start_ns + (self._queue[0].due_ns or 0))
            await free.acquire()
            if self._queue:
                group.create_task(one(self._queue.popleft()))
            else:
                free.release()

    async def _exchange(self, shot: Shot) -> None:
        now_ns = time.monotonic_ns()
        due_ns = None if shot.due_ns is None else self._start_ns + shot.due_ns
        capture = Capture(shot.number, now_ns, due_ns=due_ns, progress_ns=now_ns)
        self._sent += 1
        self._connecting += 1
        try:
            connection = await self._pool.acquire()
        except OSError as error:
            capture.ending, capture.detail = "unreachable", str(error) or repr(error)
            capture.ended_ns = time.monotonic_ns()
            self._report(capture)
            return
        finally:
            self._connecting -= 1
        self._flying[connection] = capture
        try:
            await connection.exchange(shot.payload, capture)
        finally:
            del self._flying[connection]
            self._pool.release(connection)
        if self._held is not None and capture.ending == "closed":
            capture.ending, capture.detail = "timeout", self._held
        self._bytes += len(capture.content)
        self._pieces += len(capture.stamps)
        self._report(capture)

    async def _time_out_streams(self) -> None:
        limit_ns = round(self._phase.idle_limit_ns * _LATE)
        while True:
            await asyncio.sleep(limit_ns / 1e9 / 10)
            if self._held is not None:
                continue
            oldest_ns = time.monotonic_ns() - limit_ns
            for connection, capture in tuple(self._flying.items()):
                if capture.progress_ns < oldest_ns:
                    connection.end("timeout", f"no progress for {limit_ns / 1e9:g} s")


async def _until(moment_ns: int) -> None:
    # Timers of the event loop have whole milliseconds and may fire a part of one too early.
    while (left_s := (moment_ns - time.monotonic_ns()) / 1e9) > 0:
        await asyncio.sleep(left_s)

"""The processes of the load client, as the runner sees them."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from k3runner.errors import MachineError
from k3runner.load.address import Address
from k3runner.load.capture import Capture, Shot
from k3runner.load.driver import Phase, PhaseStats
from k3runner.load.frames import Beat, Go, Hold, PhaseEnded, Stop, read_frame, write_frame
from k3runner.load.shares import shares_of

__all__ = ["LoadWorkers", "PhaseResult", "is_stalled"]

_START_DELAY_NS = 2_000_000
_MOST_LOOK_S = 0.5
_LOOKS_PER_LIMIT = 5
_END_S = 5.0
_MESSAGE_BYTES = 2**24


@dataclass(frozen=True)
class PhaseResult:
    """What is left of a phase besides its captures."""

    stats: tuple[PhaseStats, ...]
    """One for each process that had a share."""
    hung: bool
    """True when no stream made progress for the idle limit; the rest was then not sent."""
    started_ns: int
    """Start of the phase on the monotonic clock."""


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    beat: Beat | None = None


@dataclass
class _Hang:
    seen: bool = False


def is_stalled(beats: Sequence[Beat | None], limit_ns: int) -> bool:
    """Whether requests are in flight and none of them made progress for too long.

    Args:
        beats: The latest beat of every process; None before its first.
        limit_ns: Longest time without progress on any stream.
    """
    known = [beat for beat in beats if beat is not None]
    flying = [beat for beat in known if beat.in_flight > 0]
    if not flying or len(known) < len(beats):
        return False
    return all(0 < beat.progress_ns < beat.at_ns - limit_ns for beat in flying)


class LoadWorkers:
    """Processes that send and receive. Use as an asynchronous context manager.

    One is started at once, so that it is there when an engine has booted; more when a phase asks.
    """

    def __init__(self) -> None:
        self._workers: list[_Worker] = []

    async def __aenter__(self) -> "LoadWorkers":
        await self._ensure(1)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.writer.close()
            with contextlib.suppress(ConnectionError):
                await worker.writer.wait_closed()
        for worker in self._workers:
            try:
                worker.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        self._workers.clear()

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the processes."""
        return tuple(worker.process.pid for worker in self._workers)

    async def run(
        self,
        address: Address,
        shots: Sequence[Shot],
        *,
        streams: int,
        processes: int,
        idle_limit_s: float,
        on_capture: Callable[[Capture], None],
        on_hang: Callable[[], Awaitable[None]],
    ) -> PhaseResult:
        """Sends shots and waits until all have ended.

        Args:
            address: Where to.
            shots: What, in order; those with due times are sent then.
            streams: Requests in flight; with due times the most that may be.
            processes: Processes to use.
            idle_limit_s: Longest time without progress.
            on_capture: Called with each capture as it ends.
            on_hang: Awaited when nothing makes progress any more, while the requests are still in
                flight; they are ended afterwards.

        Raises:
            MachineError: A process of the load client ended.
        """
        await self._ensure(processes)
        limit_ns = round(idle_limit_s * 1e9)
        shares = shares_of(shots, streams, processes)
        used = self._workers[: len(shares)]
        for worker, (share, count) in zip(used, shares, strict=True):
            worker.beat = None
            write_frame(worker.writer, Phase(address, share, count, limit_ns))
        for worker in used:
            await _message(worker)
        started_ns = time.monotonic_ns() + _START_DELAY_NS
        for worker in used:
            write_frame(worker.writer, Go(started_ns))
        hang = _Hang()
        watching = asyncio.create_task(_watch(used, limit_ns, on_hang, hang))
        collecting = [asyncio.create_task(_collect(worker, on_capture)) for worker in used]
        try:
            stats = await asyncio.gather(*collecting)
            if hang.seen:
                # Looking at a hung engine may end it, and with it the phase.
                await watching
        finally:
            for task in (watching, *collecting):
                task.cancel()
            await asyncio.gather(watching, *collecting, return_exceptions=True)
        return PhaseResult(tuple(stats), hang.seen, started_ns)

    async def _ensure(self, count: int) -> None:
        while len(self._workers) < count:
            self._workers.append(await _start())


async def _start() -> _Worker:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "k3runner.load.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    try:
        # A capture is larger than the usual limit, which would pause and resume reading over it.
        reader, writer = await asyncio.open_connection(sock=ours, limit=_MESSAGE_BYTES)
    except BaseException:
        # Interrupted before anybody knows of the process: nobody else would end it.
        ours.close()
        process.kill()
        process.wait()
        raise
    return _Worker(process, reader, writer)


async def _message(worker: _Worker) -> object:
    message = await read_frame(worker.reader)
    if message is None:
        raise MachineError(
            f"A process of the load client ended with status {worker.process.wait()}.",
            "Its last words are above; free some memory, then resume the run.",
        )
    return message


async def _collect(worker: _Worker, on_capture: Callable[[Capture], None]) -> PhaseStats:
    while True:
        message = await _message(worker)
        if isinstance(message, Capture):
            on_capture(message)
        elif isinstance(message, Beat):
            worker.beat = message
        elif isinstance(message, PhaseEnded):
            # A process without work left must not look like one whose streams stand still.
            worker.beat = Beat(time.monotonic_ns(), 0, 0)
            return message.stats


async def _watch(
    workers: Sequence[_Worker],
    limit_ns: int,
    on_hang: Callable[[], Awaitable[None]],
    hang: _Hang,
) -> None:
    """Ends the phase when nothing makes progress."""
    while not is_stalled([worker.beat for worker in workers], limit_ns):
        await asyncio.sleep(min(_MOST_LOOK_S, limit_ns / 1e9 / _LOOKS_PER_LIMIT))
    hang.seen = True
    for worker in workers:
        write_frame(worker.writer, Hold(f"no progress on any stream for {limit_ns / 1e9:g} s"))
    await on_hang()
    for worker in workers:
        write_frame(worker.writer, Stop())

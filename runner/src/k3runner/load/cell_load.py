"""Sends all requests of a cell: warm-up until steady, then the measured part."""

import asyncio
import hashlib
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from k3bundle.client import ClientProcess, ClientStats, ClockAnchor, WarmUp
from k3bundle.derive.metrics.e2e import e2e_ms
from k3bundle.derive.metrics.percentile import percentile
from k3bundle.derive.metrics.throughput import wall_ns
from k3bundle.request import RequestRecord
from k3runner.load.address import parse_address
from k3runner.load.capture import Capture
from k3runner.load.driver import PhaseStats
from k3runner.load.planned import CellRequests, PlannedRequest
from k3runner.load.recording import Recorded, record_of
from k3runner.load.recording_thread import recording_thread
from k3runner.load.shares import process_count
from k3runner.load.shots import shots_of
from k3runner.load.steady import AGREEING_ROUNDS, is_steady
from k3runner.load.workers import LoadWorkers, PhaseResult

__all__ = ["CellLoad", "Listeners", "LoadTarget", "run_cell_load"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class LoadTarget:
    """The server that requests go to."""

    url: str
    """Base URL without trailing slash."""
    model: str
    """Served model name."""
    boot_id: str
    """Boot that records name."""
    idle_limit_s: float
    """Longest time without progress before the engine counts as hung."""


@dataclass(frozen=True)
class Listeners:
    """Whom a cell tells what."""

    before_measured: Callable[[], Awaitable[None]]
    """Awaited between warm-up and measurement."""
    on_record: Callable[[RequestRecord], None]
    """Called as each request ends."""
    on_hang: Callable[[], Awaitable[None]]
    """Awaited when nothing makes progress any more, while the requests are still in flight."""


@dataclass(frozen=True)
class CellLoad:
    """What the load client saw of one cell."""

    records: tuple[RequestRecord, ...]
    """Records, warm-up first, each part in order of ending."""
    wall_ns: int
    """From the first measured request sent to the last one ended."""
    client: ClientStats
    """The client itself."""
    hung: bool
    """True when nothing made progress for the idle limit; the rest was then not sent."""
    texts: tuple[str, ...]
    """Everything that was generated, for each record; the record itself has a digest only."""


@dataclass
class _Cell:
    """What a cell has gathered so far."""

    target: LoadTarget
    listeners: Listeners
    started: ClockAnchor
    records: list[RequestRecord] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    recording_cpu_ns: int = 0


async def run_cell_load(
    workers: LoadWorkers, target: LoadTarget, requests: CellRequests, listeners: Listeners
) -> CellLoad:
    """Sends all requests of a cell.

    Args:
        workers: Processes that send.
        target: Where to.
        requests: The cell's requests.
        listeners: Whom to tell what.

    Raises:
        MachineError: A process of the load client ended.
    """
    cell = _Cell(target, listeners, _anchor())
    rounds_ms: list[float] = []
    hung = False
    for batch in requests.warmup:
        first = len(cell.records)
        result = await _send(cell, workers, requests.concurrency, batch)
        latencies = [e2e_ms(record) for record in cell.records[first:]]
        known = [latency for latency in latencies if latency is not None]
        rounds_ms += [statistics.median(known)] if known else []
        hung = result.hung
        if hung or is_steady(rounds_ms):
            break
    stats: tuple[PhaseStats, ...] = ()
    measured_from = len(cell.records)
    if not hung:
        await listeners.before_measured()
        result = await _send(cell, workers, requests.concurrency, requests.measured)
        hung, stats = result.hung, result.stats
    steady = is_steady(rounds_ms) if len(requests.warmup) > AGREEING_ROUNDS else None
    return CellLoad(
        records=tuple(cell.records),
        wall_ns=wall_ns(cell.records[measured_from:]),
        client=ClientStats(
            started=cell.started,
            processes=tuple(_process(one) for one in stats) or (_process(_NOTHING),),
            recording_cpu_ns=cell.recording_cpu_ns,
            warmup=WarmUp(rounds_ms=tuple(rounds_ms), steady=steady),
        ),
        hung=hung,
        texts=tuple(cell.texts),
    )


_NOTHING = PhaseStats(
    requests=0, received_bytes=0, received_pieces=0, wall_ns=0, cpu_ns=0, lag_ns=()
)


async def _send(
    cell: _Cell, workers: LoadWorkers, streams: int, batch: Sequence[PlannedRequest]
) -> PhaseResult:
    target = cell.target
    address = parse_address(target.url)

    def record(capture: Capture) -> tuple[Recorded, int]:
        cpu_ns = time.thread_time_ns()
        recorded = record_of(
            batch[capture.number],
            capture,
            boot_id=target.boot_id,
            cell_started_ns=cell.started.monotonic_ns,
        )
        return recorded, time.thread_time_ns() - cpu_ns

    async def take(capture: Capture) -> None:
        recorded, cpu_ns = await loop.run_in_executor(thread, record, capture)
        cell.records.append(recorded.record)
        cell.texts.append(recorded.full_text)
        cell.recording_cpu_ns += cpu_ns
        cell.listeners.on_record(recorded.record)

    loop = asyncio.get_running_loop()
    taking: list[asyncio.Task[None]] = []
    shots = shots_of(batch, address, target.model)
    with recording_thread() as thread:
        try:
            result = await workers.run(
                address,
                shots,
                streams=streams,
                processes=process_count(min(streams, len(shots)), len(os.sched_getaffinity(0))),
                idle_limit_s=target.idle_limit_s,
                on_capture=lambda capture: taking.append(loop.create_task(take(capture))),
                on_hang=cell.listeners.on_hang,
            )
            await asyncio.gather(*taking)
        finally:
            for task in taking:
                task.cancel()
            await asyncio.gather(*taking, return_exceptions=True)
    return result


def _process(stats: PhaseStats) -> ClientProcess:
    lag_ms = [sample / _NS_PER_MS for sample in stats.lag_ns]
    return ClientProcess(
        requests=stats.requests,
        received_bytes=stats.received_bytes,
        received_pieces=stats.received_pieces,
        wall_ns=stats.wall_ns,
        cpu_ns=stats.cpu_ns,
        lag_samples=len(lag_ms),
        lag_ms_p50=percentile(lag_ms, 0.5) or 0.0,
        lag_ms_p99=percentile(lag_ms, 0.99) or 0.0,
        lag_ms_max=max(lag_ms, default=0.0),
    )


def _anchor() -> ClockAnchor:
    try:
        boot = _BOOT_ID.read_bytes().strip()
    except OSError:
        boot = b""
    return ClockAnchor(
        monotonic_ns=time.monotonic_ns(),
        utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        machine_boot_sha256=hashlib.sha256(boot).hexdigest() if boot else None,
    )

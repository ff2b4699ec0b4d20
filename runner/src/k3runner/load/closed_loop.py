"""Keeps a fixed number of requests in flight, and watches the client's own event loop."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from k3bundle.request import RequestRecord
from k3runner.load.client import LoadTarget, send
from k3runner.load.planned import CellRequests, PlannedRequest

__all__ = ["CellLoad", "run_cell_load"]

_LAG_PERIOD_S = 0.005


@dataclass(frozen=True)
class CellLoad:
    """What the load client saw of one cell."""

    records: tuple[RequestRecord, ...]
    """Records in order of ending, warm-up first."""
    wall_ns: int
    """From the first measured request sent to the last one ended."""
    max_lag_ms: float
    """Largest delay of the event loop during the cell."""
    hung: bool
    """True when a request timed out; the rest was then not sent."""
    estimated: bool
    """True when the server did not say how many tokens each event carried."""


@dataclass
class _Progress:
    records: list[RequestRecord] = field(default_factory=list)
    estimated: bool = False
    hung: bool = False


async def run_cell_load(
    session: aiohttp.ClientSession,
    target: LoadTarget,
    requests: CellRequests,
    before_measured: Callable[[], Awaitable[None]],
    on_record: Callable[[RequestRecord], None],
) -> CellLoad:
    """Sends all requests of a cell.

    Args:
        session: From `open_session`.
        target: Where to.
        requests: The cell's requests.
        before_measured: Awaited between warm-up and measurement (counters).
        on_record: Called as each request ends.
    """
    progress = _Progress()
    started_ns = time.monotonic_ns()

    async def run_all(batch: tuple[PlannedRequest, ...]) -> None:
        queue = deque(batch)

        async def stream_after_stream() -> None:
            while queue and not progress.hung:
                record, estimated = await send(session, target, queue.popleft(), started_ns)
                progress.records.append(record)
                progress.estimated |= estimated
                outcome = record.outcome
                # A hung engine would cost one time limit per request that is left.
                if outcome.status == "failed" and outcome.error == "timeout":
                    progress.hung = True
                on_record(record)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(requests.concurrency, len(batch))):
                group.create_task(stream_after_stream())

    async with _loop_lag() as lag:
        await run_all(requests.warmup)
        await before_measured()
        await run_all(requests.measured)
    measured = progress.records[len(requests.warmup) :]
    first_ns = min((record.sent_at_ns for record in measured), default=0)
    last_ns = max((record.sent_at_ns + record.ended_at_ns for record in measured), default=0)
    return CellLoad(
        records=tuple(progress.records),
        wall_ns=last_ns - first_ns,
        max_lag_ms=lag.max_ms,
        hung=progress.hung,
        estimated=progress.estimated,
    )


@dataclass
class _Lag:
    max_ms: float = 0.0


@asynccontextmanager
async def _loop_lag() -> AsyncIterator[_Lag]:
    lag = _Lag()

    async def watch() -> None:
        while True:
            due = time.monotonic() + _LAG_PERIOD_S
            await asyncio.sleep(_LAG_PERIOD_S)
            lag.max_ms = max(lag.max_ms, (time.monotonic() - due) * 1e3)

    task = asyncio.create_task(watch())
    try:
        yield lag
    finally:
        task.cancel()

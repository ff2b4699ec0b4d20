"""Runs one cell in one boot: snapshots around it, its requests, and the line that it finished."""

import asyncio
import statistics
from dataclasses import dataclass

import aiohttp

from k3bundle.request import RequestRecord
from k3bundle.run import CellAborted, CellFinished
from k3runner.engine_probe import EngineProbe, EngineSilentError, Moment
from k3runner.engine_process import EngineProcess
from k3runner.events import CellEnded, CellProgress, CellStarted, Remark
from k3runner.load.client import LoadTarget
from k3runner.load.closed_loop import CellLoad, run_cell_load
from k3runner.load.planned import plan_requests
from k3runner.run_context import RunContext, utc_now
from k3runner.run_state import RunnableCell

__all__ = ["BootedServer", "abort_cells", "run_cell"]

_DEATH_WAIT_S = 3.0
_BROKEN = ("cut_stream", "connection", "error_event")


@dataclass(frozen=True)
class BootedServer:
    """A healthy server that cells run against."""

    boot_id: str
    """Boot it belongs to."""
    slot: int
    """Slot of the boot."""
    url: str
    """Base URL."""
    process: EngineProcess | None
    """The engine; None for an existing server."""
    session: aiohttp.ClientSession
    """HTTP session."""
    probe: EngineProbe
    """Administrative requests."""


async def run_cell(context: RunContext, server: BootedServer, cell: RunnableCell) -> bool:
    """Runs a cell and journals it.

    Returns:
        True when it finished; False when it was aborted, and the server is then of no use.

    Raises:
        EngineError: The engine reports step counts in a wrong shape.
    """
    try:
        load = await _measure(context, server, cell)
        reason = await _abort_reason(context, server, load)
        if reason is None:
            await _coverage(context, server, cell, "after")
            await _counters(context, server, cell, "after")
            _finish(context, server, cell, load)
            return True
    except EngineSilentError as error:
        end = None if server.process is None else server.process.ended()
        reason = error.problem if end is None else end.detail
    _abort(context, server, cell, reason)
    return False


async def _measure(context: RunContext, server: BootedServer, cell: RunnableCell) -> CellLoad:
    """Sends the cell's requests and journals them, with snapshots before."""
    requests = plan_requests(cell, context.nonce, context.vocabulary)
    planned = len(requests.warmup) + len(requests.measured)
    context.emit(CellStarted(slot=server.slot, cell_id=cell.cell_id, requests_planned=planned))
    done = failed = 0

    def on_record(record: RequestRecord) -> None:
        nonlocal done, failed
        done += 1
        failed += record.outcome.status == "failed"
        context.emit(
            CellProgress(
                slot=server.slot,
                cell_id=cell.cell_id,
                requests_done=done,
                requests_failed=failed,
            )
        )

    async def count_before() -> None:
        await _counters(context, server, cell, "before")

    await server.probe.reset_prefix_cache()
    await _coverage(context, server, cell, "before")
    target = LoadTarget(
        url=server.url,
        model=context.model,
        boot_id=server.boot_id,
        idle_limit_s=context.config.limits.request_idle_s,
    )
    load = await run_cell_load(server.session, target, requests, count_before, on_record)
    context.journal.requests(load.records)
    return load


def abort_cells(
    context: RunContext, server: BootedServer, cells: tuple[RunnableCell, ...], reason: str
) -> None:
    """Journals cells that were not even started."""
    for cell in cells:
        _abort(context, server, cell, reason)


def _abort(context: RunContext, server: BootedServer, cell: RunnableCell, reason: str) -> None:
    context.journal.cell(
        CellAborted(
            boot_id=server.boot_id,
            slot=server.slot,
            cell_id=cell.cell_id,
            at_utc=utc_now(),
            reason=reason,
        )
    )
    context.emit(CellEnded(slot=server.slot, cell_id=cell.cell_id, finished=False, summary=reason))


def _finish(context: RunContext, server: BootedServer, cell: RunnableCell, load: CellLoad) -> None:
    context.journal.cell(
        CellFinished(
            boot_id=server.boot_id,
            slot=server.slot,
            cell_id=cell.cell_id,
            at_utc=utc_now(),
            wall_ns=load.wall_ns,
            request_count=len(load.records),
            client_max_lag_ms=load.max_lag_ms,
        )
    )
    context.state.finished.add((server.slot, cell.cell_id))
    if load.estimated:
        context.emit(
            Remark(
                f"{cell.cell_id}: the server does not say how many tokens each event carried; "
                "they were spread evenly over the events, so TPOT is an estimate."
            )
        )
    summary = _summary(cell, load)
    context.emit(CellEnded(slot=server.slot, cell_id=cell.cell_id, finished=True, summary=summary))


async def _abort_reason(context: RunContext, server: BootedServer, load: CellLoad) -> str | None:
    """Why the cell cannot count as run; None when it can."""
    if load.hung:
        limit = context.config.limits.request_idle_s
        return f"The engine hung: no token came for {limit:g} s on a stream."
    broken = any(
        record.outcome.status == "failed" and record.outcome.error in _BROKEN
        for record in load.records
    )
    if not broken and (server.process is None or server.process.ended() is None):
        return None
    # A dying engine cuts its streams first and ends a moment later.
    for _ in range(int(_DEATH_WAIT_S / 0.1)):
        end = None if server.process is None else server.process.ended()
        if end is not None:
            return end.detail
        if server.process is None and not await server.probe.healthy():
            return "The server does not answer its health check any more."
        await asyncio.sleep(0.1)
    return None


async def _coverage(
    context: RunContext, server: BootedServer, cell: RunnableCell, moment: Moment
) -> None:
    snapshot = await server.probe.coverage(
        # Which paths an existing server has, and how it would name them, is not known.
        None if server.process is None else context.config.subject.engine.coverage_method,
        boot_id=server.boot_id,
        cell_id=cell.cell_id,
        moment=moment,
    )
    context.journal.coverage(snapshot)


async def _counters(
    context: RunContext, server: BootedServer, cell: RunnableCell, moment: Moment
) -> None:
    context.journal.counters(
        await server.probe.counters(boot_id=server.boot_id, cell_id=cell.cell_id, moment=moment)
    )


def _summary(cell: RunnableCell, load: CellLoad) -> str:
    """One phrase for the display; the verdict derives its own numbers from the records."""
    measured = [record for record in load.records if record.variant != "warmup"]
    completed = [record for record in measured if record.outcome.status == "completed"]
    if len(completed) < len(measured):
        return f"{len(measured) - len(completed)} of {len(measured)} requests failed"
    if cell.kind != "serving" or not completed:
        return f"{len(completed)} answers"
    ttft_ms = statistics.median(record.events[0].at_ns / 1e6 for record in completed)
    tokens = sum(event.tokens for record in completed for event in record.events)
    return f"ttft {ttft_ms:.0f} ms, {tokens / (load.wall_ns / 1e9):.0f} tokens/s"

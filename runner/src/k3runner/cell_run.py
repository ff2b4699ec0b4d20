"""Runs one cell in one boot: snapshots around it, its requests, and the line that it finished."""

import asyncio
import contextlib
import statistics
from dataclasses import dataclass
from typing import Literal

from k3bundle.request import RequestRecord
from k3bundle.run import CellAborted, CellFinished
from k3runner.engine_probe import EngineProbe, EngineSilentError, Moment
from k3runner.engine_process import EngineProcess
from k3runner.events import CellEnded, CellProgress, CellStarted, Remark
from k3runner.graph_run import record_graph_table
from k3runner.hang import dump_stacks
from k3runner.load.cell_load import CellLoad, Listeners, LoadTarget, run_cell_load
from k3runner.load.planned import plan_requests
from k3runner.load.workers import LoadWorkers
from k3runner.run_context import RunContext, utc_now
from k3runner.run_state import RunnableCell
from k3runner.telemetry.sampler import BootTelemetry
from k3runner.text_check import text_remark, with_text_tokens

__all__ = ["BootedServer", "abort_cells", "run_cell"]

_DEATH_WAIT_S = 3.0
_SAMPLE_S = 2.0
_BROKEN = ("cut_stream", "connection", "error_event")
Cause = Literal["hang", "engine_ended", "silent", "not_started"]


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
    workers: LoadWorkers
    """Processes of the load client."""
    probe: EngineProbe
    """Administrative requests."""
    telemetry: BootTelemetry
    """Samples of the machine."""


async def run_cell(context: RunContext, server: BootedServer, cell: RunnableCell) -> bool:
    """Runs a cell and journals it.

    Returns:
        True when it finished; False when it was aborted, and the server is then of no use.

    Raises:
        EngineError: The engine reports step counts in a wrong shape.
    """
    try:
        load = await _measure(context, server, cell)
        cause, reason = await _abort_reason(context, server, load)
        if cause is None:
            await _coverage(context, server, cell, "after")
            await _counters(context, server, cell, "after")
            _finish(context, server, cell, load)
            return True
    except EngineSilentError as error:
        end = None if server.process is None else server.process.ended()
        cause, reason = ("silent", error.problem) if end is None else ("engine_ended", end.detail)
    _abort(context, server, cell, cause=cause, reason=reason)
    return False


async def _measure(context: RunContext, server: BootedServer, cell: RunnableCell) -> CellLoad:
    """Sends the cell's requests and journals them, with snapshots before."""
    requests = plan_requests(cell, context.nonce, context.vocabulary, context.prompt_files)
    planned = sum(len(batch) for batch in requests.warmup) + len(requests.measured)
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
        await _sample(server)

    async def dump() -> None:
        path = context.folder / "logs" / f"{server.boot_id}.hang-{cell.cell_id}.log"
        await dump_stacks(
            server.process,
            engine_python=context.config.engine_python,
            out=path,
            clean=context.scrub.counted,
        )

    await server.probe.reset_prefix_cache()
    await _coverage(context, server, cell, "before")
    server.telemetry.forget()
    target = LoadTarget(
        url=server.url,
        model=context.model,
        boot_id=server.boot_id,
        idle_limit_s=context.config.limits.request_idle_s,
    )
    listeners = Listeners(before_measured=count_before, on_record=on_record, on_hang=dump)
    load = await run_cell_load(server.workers, target, requests, listeners)
    if not load.hung:
        load = await with_text_tokens(server.probe, context.model, load)
    await _sample(server)
    started_ns = load.client.started.monotonic_ns
    context.journal.telemetry(server.telemetry.cell_lines(cell.cell_id, began_ns=started_ns))
    context.journal.requests(load.records)
    return load


async def _sample(server: BootedServer) -> None:
    """Takes a sample at an edge of the measured part; a driver that hangs is not waited for."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(server.telemetry.take), _SAMPLE_S)


def abort_cells(
    context: RunContext, server: BootedServer, cells: tuple[RunnableCell, ...], reason: str
) -> None:
    """Journals cells that were not even started."""
    for cell in cells:
        _abort(context, server, cell, cause="not_started", reason=reason)


def _abort(
    context: RunContext, server: BootedServer, cell: RunnableCell, *, cause: Cause, reason: str
) -> None:
    context.journal.cell(
        CellAborted(
            boot_id=server.boot_id,
            slot=server.slot,
            cell_id=cell.cell_id,
            at_utc=utc_now(),
            cause=cause,
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
            client=load.client,
        )
    )
    context.state.finished.add((server.slot, cell.cell_id))
    if any(record.counted_by == "estimate" for record in load.records):
        context.emit(
            Remark(
                f"{cell.cell_id}: the server does not say how many tokens each event carried; "
                "they were spread evenly over the events, so TPOT is an estimate."
            )
        )
    remark = text_remark(load.records)
    if remark is not None:
        context.emit(Remark(f"{cell.cell_id}: {remark}"))
    summary = _summary(cell, load)
    context.emit(CellEnded(slot=server.slot, cell_id=cell.cell_id, finished=True, summary=summary))


async def _abort_reason(
    context: RunContext, server: BootedServer, load: CellLoad
) -> tuple[Cause | None, str]:
    """Why the cell cannot count as run; None when it can."""
    if load.hung:
        limit = context.config.limits.request_idle_s
        flying = [record for record in load.records if _timed_out(record)]
        tokens = sum(event.tokens for record in flying for event in record.events)
        return "hang", (
            f"HANG: nothing came for {limit:g} s on any of {len(flying)} streams, after "
            f"{tokens} tokens; what the processes were doing is in the log of the hang."
        )
    broken = any(
        record.outcome.status == "failed" and record.outcome.error in _BROKEN
        for record in load.records
    )
    if not broken and (server.process is None or server.process.ended() is None):
        return None, ""
    # A dying engine cuts its streams first and ends a moment later.
    for _ in range(int(_DEATH_WAIT_S / 0.1)):
        end = None if server.process is None else server.process.ended()
        if end is not None:
            return "engine_ended", end.detail
        if server.process is None and not await server.probe.healthy():
            return "engine_ended", "The server does not answer its health check any more."
        await asyncio.sleep(0.1)
    return None, ""


def _timed_out(record: RequestRecord) -> bool:
    return record.outcome.status == "failed" and record.outcome.error == "timeout"


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
    await record_graph_table(context, server, cell, moment)


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

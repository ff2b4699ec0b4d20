"""Records what an engine that replays graphs says about its steps: tables, and a short profile.

Only for subjects whose engine counts no steps itself and that name the kernels of their path. What
the records mean is derived in `k3bundle.derive.graph_steps`.
"""

import asyncio
import gzip
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from k3bundle.graph_record import GraphTable
from k3bundle.plan import ServingCell
from k3runner.engine_probe import EngineSilentError, Moment
from k3runner.events import Remark
from k3runner.graph_log import read_graph_log
from k3runner.kernel_trace import kernel_profiles
from k3runner.load.cell_load import Listeners, LoadTarget, run_cell_load
from k3runner.load.planned import plan_requests
from k3runner.run_context import RunContext
from k3runner.run_state import RunnableCell

if TYPE_CHECKING:
    from k3runner.cell_run import BootedServer

__all__ = ["PROFILE_FOLDER", "profile_graphs", "record_graph_table", "replays_graphs"]

PROFILE_FOLDER: Final = "profile"
"""Where the subject's engine writes its traces, below its working folder."""
_INTERVAL: Final = "VLLM_LOG_STATS_INTERVAL"
_DEFAULT_INTERVAL_S: Final = 10.0
_MARGIN_S: Final = 0.5
_PROMPT_TOKENS: Final = 16
_OUTPUT_TOKENS: Final = 32
_FLUSH_S: Final = 900.0
"""Writing the traces of many ranks takes minutes."""
_MOST_TRACE_BYTES: Final = 1 << 28


def replays_graphs(context: RunContext) -> bool:
    """Whether the subject's steps are counted by its table of graphs."""
    engine = context.config.subject.engine
    return engine.coverage_method is None and bool(engine.path_kernels)


async def record_graph_table(
    context: RunContext, server: "BootedServer", cell: RunnableCell, moment: Moment
) -> None:
    """Notes the engine's table of dispatched graphs around a cell.

    The engine prints it at every interval of its statistics, so after a cell one interval passes
    before the log is read.
    """
    if server.process is None or not replays_graphs(context):
        return
    if moment == "after":
        words = context.config.subject.engine.environment.get(_INTERVAL)
        await asyncio.sleep(float(words or _DEFAULT_INTERVAL_S) + _MARGIN_S)
    text = await asyncio.to_thread(server.process.log.read_text, "utf-8", "replace")
    found = read_graph_log(text)
    context.journal.graphs(
        [
            GraphTable(
                boot_id=server.boot_id,
                cell_id=cell.cell_id,
                moment=moment,
                capture_sizes=found.capture_sizes,
                rows=found.rows,
            )
        ]
    )


async def profile_graphs(
    context: RunContext, server: "BootedServer", cells: Iterable[RunnableCell], folder: Path
) -> None:
    """Profiles a few steps at every concurrency of the cells, and notes kernels by size.

    It runs after the cells, since a profiler slows what it watches. An engine that cannot be
    profiled is remarked on; its cells then have no coverage.

    Args:
        context: The run.
        server: The engine.
        cells: Cells that the boot runs.
        folder: Working folder of the engine.
    """
    if server.process is None or not replays_graphs(context):
        return
    sizes = sorted({cell.concurrency for cell in cells if cell.kind != "feature"} | {1})
    try:
        for concurrency in sizes:
            if not await server.probe.switch_profiler("start", _FLUSH_S):
                context.emit(Remark(f"{server.boot_id} has no profiler that can be switched on."))
                return
            await _load(context, server, concurrency)
            await server.probe.switch_profiler("stop", _FLUSH_S)
    except EngineSilentError as error:
        context.emit(Remark(f"{server.boot_id} could not be profiled: {error.problem}"))
        return
    traces = await asyncio.to_thread(lambda: list(_traces(folder / PROFILE_FOLDER)))
    profiles = await asyncio.to_thread(kernel_profiles, server.boot_id, traces)
    if not profiles:
        context.emit(Remark(f"The profile of {server.boot_id} shows no decode step."))
    context.journal.graphs(profiles)


async def _load(context: RunContext, server: "BootedServer", concurrency: int) -> None:
    """Keeps so many requests decoding for a few steps; what they answer is not looked at."""
    cell = ServingCell(
        cell_id="profile",
        endpoint="completions",
        concurrency=concurrency,
        prompt_tokens=_PROMPT_TOKENS,
        output_tokens=_OUTPUT_TOKENS,
        warmup_requests=0,
        request_count=concurrency,
    )
    target = LoadTarget(
        url=server.url,
        model=context.model,
        boot_id=server.boot_id,
        idle_limit_s=context.config.limits.request_idle_s,
    )

    async def nothing() -> None:
        return None

    await run_cell_load(
        server.workers,
        target,
        plan_requests(cell, context.nonce, context.vocabulary),
        Listeners(before_measured=nothing, on_record=lambda _record: None, on_hang=nothing),
    )


def _traces(folder: Path) -> Iterator[list[Mapping[str, Any]]]:
    """Events of every trace in a folder that the engine wrote.

    The engine may have put anything there: only plain files of a bounded size are read, and what
    is no trace is passed over.
    """
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if not path.name.endswith((".pt.trace.json", ".pt.trace.json.gz")):
            continue
        try:
            events = json.loads(_content(path))["traceEvents"]
        except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(events, list):
            yield [event for event in events if isinstance(event, dict)]


def _content(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no plain file")
        if path.name.endswith(".gz"):
            with gzip.GzipFile(fileobj=file) as inner:
                content = inner.read(_MOST_TRACE_BYTES + 1)
        else:
            content = file.read(_MOST_TRACE_BYTES + 1)
    if len(content) > _MOST_TRACE_BYTES:
        raise ValueError("too large")
    return content

"""Boots the engine of one slot and runs the slot's missing cells in it."""

import asyncio
import os
import sys
import time
from typing import Literal

from k3bundle.plan import BootSlot
from k3bundle.run import BootReady, BootStarted, BootStopped
from k3runner.cell_run import BootedServer, abort_cells, run_cell
from k3runner.effective_config import with_place_named
from k3runner.engine_command import engine_command, public_command
from k3runner.engine_log import last_log_line, last_words, unknown_variables
from k3runner.engine_probe import EngineProbe
from k3runner.engine_process import EngineProcess, choose_port, start_engine
from k3runner.engine_tools import write_engine_tools
from k3runner.errors import EngineError, MachineError
from k3runner.events import BootBecameReady, BootEnded, BootStarting, BootWaiting, Remark
from k3runner.graph_run import profile_graphs
from k3runner.load.workers import LoadWorkers
from k3runner.run_context import RunContext, utc_now
from k3runner.run_watch import BootPlace

__all__ = ["run_existing_server", "run_slot"]

How = Literal["clean", "killed", "crashed", "never_ready"]
_POLL_S = 0.25
_WAITING_EVENT_S = 1.0
_DETAIL_LIMIT = 1500
_KEPT = "Finished cells are kept; `k3-eval resume` runs only what is missing."


async def run_slot(context: RunContext, slot: BootSlot, *, last: bool) -> None:
    """Boots the slot's engine and runs the cells that the slot has not finished.

    Args:
        context: The run.
        slot: Slot of the plan.
        last: Whether cells that this boot cannot finish will not be tried again.

    Raises:
        EngineError: The engine did not become healthy.
    """
    if context.state.missing_cells(context.plan, slot.slot):
        await _boot(context, slot, last=last)


async def run_existing_server(context: RunContext, slot: BootSlot, url: str) -> None:
    """Runs the cells of a slot against a server that somebody else started.

    Raises:
        EngineError: The server does not answer.
    """
    if not context.state.missing_cells(context.plan, slot.slot):
        return
    boot_id = f"boot-{slot.slot}.{context.attempt}"
    _journal_start(context, slot, boot_id, ("<existing server, not started by the runner>",))
    ready = False
    try:
        limit_s = context.config.limits.probe_s
        with context.watch.existing_server(boot_id, context.journal) as telemetry:
            async with LoadWorkers() as workers, EngineProbe(url, limit_s) as probe:
                server = BootedServer(boot_id, slot.slot, url, None, workers, probe, telemetry)
                await _read_back(context, server, ready_after_s=0.0)
                ready = True
                await _run_cells(context, server, last=True)
    finally:
        how: How = "clean" if ready else "never_ready"
        detail = "The server was left running." if ready else "The server did not answer."
        _journal_end(context, slot.slot, boot_id, how, detail)


async def _boot(context: RunContext, slot: BootSlot, *, last: bool) -> None:
    """One engine process from start to end; whatever happens, nothing of it is left."""
    boot_id = f"boot-{slot.slot}.{context.attempt}"
    with context.watch.boot(boot_id, slot.arm, context.journal) as place:
        await _boot_in(context, slot, boot_id, place, last=last)


async def _boot_in(
    context: RunContext, slot: BootSlot, boot_id: str, place: BootPlace, *, last: bool
) -> None:
    config = context.config
    if config.engine_python is None or config.model_folder is None:
        raise MachineError("No engine to boot is configured.", "Give --engine-python and --model.")
    command = engine_command(
        subject=config.subject,
        deployment=next(one for one in context.plan.deployments if one.name == slot.deployment),
        arm=next(one for one in config.subject.arms if one.spec.name == slot.arm),
        engine_python=config.engine_python,
        model_folder=config.model_folder,
        port=choose_port(config.engine_port),
        inherited={**os.environ, **place.environment},
        tools=write_engine_tools(place.tools),
    )
    places = {**context.places, str(command.port): "<port>"}
    _journal_start(context, slot, boot_id, public_command(command.argv, places))
    place.on_started()
    log = context.folder / "logs" / f"{boot_id}.log"
    process: EngineProcess | None = None
    ready = False
    began = time.monotonic()
    try:
        process = start_engine(
            command,
            log=log,
            clean=context.scrub.counted,
            folder=place.folder,
            user=place.user,
        )
        url = f"http://127.0.0.1:{command.port}"
        async with LoadWorkers() as workers, EngineProbe(url, config.limits.probe_s) as probe:
            server = BootedServer(boot_id, slot.slot, url, process, workers, probe, place.telemetry)
            await _wait_healthy(context, server, process, began)
            ready_after_s = time.monotonic() - began
            _refuse_unknown_variables(process)
            home = str(place.folder) if place.user is not None else None
            await _read_back(context, server, ready_after_s=ready_after_s, home=home)
            ready = True
            missing = context.state.missing_cells(context.plan, slot.slot)
            if await _run_cells(context, server, last=last):
                await profile_graphs(context, server, missing, place.folder)
    finally:
        _end(context, slot, boot_id, process, ready=ready)


async def _wait_healthy(
    context: RunContext, server: BootedServer, process: EngineProcess, began: float
) -> None:
    limit_s = context.config.limits.ready_s
    told = began
    while not await server.probe.healthy():
        now = time.monotonic()
        ended = process.ended()
        if ended is not None:
            raise EngineError(
                f"Boot {server.slot} did not become healthy. {ended.detail}",
                f"The whole log is {process.log}. {_KEPT}",
            )
        if now - began > limit_s:
            raise EngineError(
                f"Boot {server.slot} was not healthy after {limit_s:g} s; its log ends with: "
                f"{last_log_line(process.log)}",
                f"The whole log is {process.log}. {_KEPT}",
            )
        if now - told >= _WAITING_EVENT_S:
            told = now
            context.emit(
                BootWaiting(
                    slot=server.slot,
                    waited_s=now - began,
                    last_log_line=last_words(process.log),
                )
            )
        await asyncio.sleep(_POLL_S)


async def _read_back(
    context: RunContext, server: BootedServer, *, ready_after_s: float, home: str | None = None
) -> None:
    """Asks the server what it is, and checks that it serves the model that is asked for.

    The home of an arm is a path of its own, and must not look like a difference of the arms.
    """
    models = await server.probe.served_models()
    if context.model not in models:
        found = ", ".join(models) or "none"
        raise EngineError(
            f"The server at {server.url} must serve `{context.model}`; it names {found}.",
            f"Check what listens there. {_KEPT}",
        )
    volatile = context.config.subject.engine.volatile_config_keys
    effective_config = await server.probe.effective_config(volatile)
    if home is not None:
        effective_config = with_place_named(effective_config, home, "<engine-home>")
    if not effective_config and server.process is not None:
        context.emit(
            Remark(
                f"Boot {server.slot} does not tell its effective configuration, so whether the "
                "arms differ only as planned cannot be judged."
            )
        )
    context.journal.boot(
        BootReady(
            boot_id=server.boot_id,
            ready_after_ms=ready_after_s * 1e3,
            engine_version=await server.probe.version(),
            effective_config=effective_config,
        )
    )
    context.emit(BootBecameReady(slot=server.slot, ready_after_s=ready_after_s))


def _refuse_unknown_variables(process: EngineProcess) -> None:
    """A setting that the engine does not know is a setting that the run does not have."""
    unknown = unknown_variables(process.log.read_text("utf-8", "replace"))
    if unknown:
        raise EngineError(
            f"The engine does not know the environment variables {', '.join(unknown)}.",
            "Correct [engine.environment] of the subject, or use the engine version it is for.",
        )


async def _run_cells(context: RunContext, server: BootedServer, *, last: bool) -> bool:
    """Runs the missing cells in plan order; False when the server failed in one of them."""
    missing = context.state.missing_cells(context.plan, server.slot)
    for at, cell in enumerate(missing):
        if not await run_cell(context, server, cell):
            if last:
                abort_cells(context, server, missing[at + 1 :], "The engine had ended before.")
            return False
    return True


def _journal_start(
    context: RunContext, slot: BootSlot, boot_id: str, command: tuple[str, ...]
) -> None:
    arm = next(one for one in context.plan.arms if one.name == slot.arm)
    context.journal.boot(
        BootStarted(
            boot_id=boot_id,
            slot=slot.slot,
            arm=slot.arm,
            attempt=context.attempt,
            at_utc=utc_now(),
            command=command,
        )
    )
    context.emit(
        BootStarting(
            slot=slot.slot,
            slot_count=len(context.plan.boots),
            arm=slot.arm,
            decode_backend=arm.decode_backend,
        )
    )


def _end(
    context: RunContext,
    slot: BootSlot,
    boot_id: str,
    process: EngineProcess | None,
    *,
    ready: bool,
) -> None:
    if process is None:
        _journal_end(context, slot.slot, boot_id, "never_ready", "No process could be started.")
        return
    end = process.stop(context.config.limits.stop_s)
    if not ready and isinstance(sys.exception(), asyncio.CancelledError | KeyboardInterrupt):
        # It was not given the time to become ready, so nothing is wrong with it.
        _journal_end(context, slot.slot, boot_id, "killed", "Interrupted while it started.")
        return
    how: How = end.how if ready else "never_ready"
    _journal_end(context, slot.slot, boot_id, how, end.detail)


def _journal_end(context: RunContext, slot: int, boot_id: str, how: How, detail: str) -> None:
    context.journal.boot(BootStopped(boot_id=boot_id, how=how, detail=detail[:_DETAIL_LIMIT]))
    context.emit(BootEnded(slot=slot, how=how, detail=detail))

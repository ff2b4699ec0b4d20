"""Asks a kernel package, one command for each cell, and journals what it answers.

The boot of such a run is the time in which the package's commands run: watched and guarded like an
engine's, as the same other user, and with telemetry beside every command.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Literal

from k3bundle.kernel_record import KernelCommand
from k3bundle.plan import BootSlot, KernelCell
from k3bundle.run import BootReady, BootStarted, BootStopped, CellAborted, CellFinished
from k3runner.engine_command import EngineCommand, process_environment
from k3runner.engine_log import last_log_line
from k3runner.engine_process import EngineProcess, start_engine
from k3runner.engine_tools import write_engine_tools
from k3runner.errors import MachineError
from k3runner.events import (
    BootBecameReady,
    BootEnded,
    BootStarting,
    CellEnded,
    CellStarted,
    Remark,
)
from k3runner.free_text import KERNEL_TEXT
from k3runner.kernel_answers import Answers, read_answers
from k3runner.package_plan import package_of
from k3runner.process_output import BoundedOutput
from k3runner.run_context import RunContext, utc_now
from k3runner.run_watch import BootPlace
from k3runner.visible import cut_at_word
from k3runner.wording import plural

__all__ = ["run_package"]

_POLL_S = 0.1
_STOP_S = 5.0
_JUDGED = (0, 1)
"""Ends of a command that answered: everything passed, or something did not."""
_LARGEST_OUTPUT = 64 * 1024 * 1024
_LONGEST_REASON = 1500
_MANY_LINES = 10_000
"""From here on it takes seconds to read and clean them."""


@dataclass(frozen=True)
class _Boot:
    """The boot that the commands run in."""

    context: RunContext
    boot_id: str
    slot: int
    place: BootPlace


@dataclass(frozen=True)
class _CommandEnd:
    """How a command ended."""

    code: int | None
    """Exit status, negative for a signal; None when it was ended for a reason."""
    cause: Literal["hang", "engine_ended"]
    """What to call it when it gave no answers."""
    detail: str
    """One sentence."""


async def run_package(context: RunContext, slot: BootSlot) -> None:
    """Runs the cells of a package that are not finished.

    A command that answers in another form is recorded as such and the next one runs.

    Raises:
        MachineError: No Python of the package is configured.
        EngineError: A command could not be started.
    """
    due = context.state.due_cells(context.plan, slot.slot)
    if not due:
        return
    boot_id = f"boot-{slot.slot}.{context.attempt}"
    with context.watch.boot(boot_id, slot.arm, context.journal) as place:
        boot = _Boot(context, boot_id, slot.slot, place)
        _began(boot, slot)
        how = "clean"
        detail = "Every command of the package ended."
        try:
            for cell in due:
                if isinstance(cell, KernelCell):
                    await _run_cell(boot, cell)
        except BaseException:
            how, detail = "killed", "The run was ended before every command had answered."
            raise
        finally:
            context.journal.boot(
                BootStopped(
                    boot_id=boot_id, how="clean" if how == "clean" else "killed", detail=detail
                )
            )
            context.emit(BootEnded(slot=slot.slot, how=how, detail=detail))


def _began(boot: _Boot, slot: BootSlot) -> None:
    context = boot.context
    arm = context.plan.arms[0]
    context.journal.boot(
        BootStarted(
            boot_id=boot.boot_id,
            slot=slot.slot,
            arm=slot.arm,
            attempt=context.attempt,
            at_utc=utc_now(),
            command=("<engine-python>", "<arguments of each cell>"),
        )
    )
    boot.place.on_started()
    context.emit(
        BootStarting(
            slot=slot.slot,
            slot_count=len(context.plan.boots),
            arm=slot.arm,
            decode_backend=arm.decode_backend,
        )
    )
    context.journal.boot(
        BootReady(
            boot_id=boot.boot_id,
            ready_after_ms=0.0,
            engine_version=context.package_version,
            effective_config={},
        )
    )
    context.emit(BootBecameReady(slot=slot.slot, ready_after_s=0.0))


async def _run_cell(boot: _Boot, cell: KernelCell) -> None:
    context = boot.context
    context.emit(CellStarted(slot=boot.slot, cell_id=cell.cell_id, requests_planned=0))
    boot.place.telemetry.forget()
    began_ns = time.monotonic_ns()
    out = BoundedOutput(_LARGEST_OUTPUT)
    boot.place.telemetry.take()
    end = await _command(boot, cell, out)
    boot.place.telemetry.take()
    wall_ns = time.monotonic_ns() - began_ns
    context.journal.telemetry(boot.place.telemetry.cell_lines(cell.cell_id, began_ns=began_ns))
    said = out.content
    answers = None
    if end.code in _JUDGED:
        _tell_of_many(boot, cell, said.count(b"\n"))
        clean = boot.context.scrub.reader()
        answers = read_answers(
            said, cell.task, boot_id=boot.boot_id, cell_id=cell.cell_id, clean=clean
        )
    # A program that raised ends with 1 too; without a word it has not answered.
    if answers is None or (end.code and not answers.records and not answers.unread_lines):
        _abort(boot, cell, end)
    else:
        _finish(boot, cell, answers, code=end.code or 0, wall_ns=wall_ns)
    if said and (answers is None or answers.unread_lines):
        _keep_clean(boot, cell, said)


def _tell_of_many(boot: _Boot, cell: KernelCell, lines: int) -> None:
    """Says what goes on where nothing would be heard for a while."""
    if lines >= _MANY_LINES:
        boot.context.emit(
            Remark(
                f"{cell.cell_id}: {plural(lines, 'line')} of the package are read, cleaned and "
                "judged; that takes a few seconds for every 10,000."
            )
        )


def _keep_clean(boot: _Boot, cell: KernelCell, said: bytes) -> None:
    """Keeps what was not read as a whole to look at, without what it must not tell.

    It enters no bundle.
    """
    text = boot.context.scrub.text(said.decode("utf-8", "replace"))
    path = boot.context.folder / "logs" / f"{boot.boot_id}.{cell.cell_id}.output"
    path.write_text(text, "utf-8")


async def _command(boot: _Boot, cell: KernelCell, out: BoundedOutput) -> _CommandEnd:
    """Runs a command to its end, or ends it at its limit."""
    context, config = boot.context, boot.context.config
    if config.engine_python is None:
        raise MachineError("No Python of the package is configured.", "Give --engine-python.")
    inherited = {**os.environ, **boot.place.environment}
    environment = process_environment(
        inherited, config.engine_python, write_engine_tools(boot.place.tools)
    )
    environment |= package_of(config.subject).environment
    environment["CUDA_VISIBLE_DEVICES"] = _first_gpu(inherited.get("CUDA_VISIBLE_DEVICES"))
    arguments = (word.replace("{commit}", context.commit_sha) for word in cell.arguments)
    log = context.folder / "logs" / f"{boot.boot_id}.{cell.cell_id}.log"
    process = start_engine(
        EngineCommand((str(config.engine_python), *arguments), environment, port=0),
        log=log,
        clean=context.scrub.counted,
        folder=boot.place.folder,
        user=boot.place.user,
        out=out,
    )
    try:
        return await _wait(process, cell.limit_s, out)
    finally:
        process.stop(_STOP_S)


def _first_gpu(visible: str | None) -> str:
    return (visible or "0").split(",")[0]


async def _wait(process: EngineProcess, limit_s: int, out: BoundedOutput) -> _CommandEnd:
    deadline = time.monotonic() + limit_s
    while (end := process.ended()) is None:
        # Looked at while it runs: a command need not have an end.
        if out.size > _LARGEST_OUTPUT:
            process.stop(_STOP_S)
            break
        if time.monotonic() > deadline:
            process.stop(_STOP_S)
            detail = f"HANG: the command had not ended after {limit_s} s."
            return _CommandEnd(None, "hang", detail)
        await asyncio.sleep(_POLL_S)
    if out.size > _LARGEST_OUTPUT:
        detail = (
            f"The package printed {out.size} bytes, and at most {_LARGEST_OUTPUT} are read; its "
            "adapter must print one line for each case."
        )
        return _CommandEnd(None, "engine_ended", detail)
    return _CommandEnd(None if end is None else end.code, "engine_ended", end.detail if end else "")


def _finish(boot: _Boot, cell: KernelCell, answers: Answers, *, code: int, wall_ns: int) -> None:
    context = boot.context
    command = KernelCommand(
        boot_id=boot.boot_id,
        cell_id=cell.cell_id,
        exit_code=code,
        lines=len(answers.records),
        other_lines=answers.other_lines,
        facts=dict(answers.facts),
        unread_lines=answers.unread_lines,
        unread=answers.unread,
    )
    context.journal.kernels(context.scrub.records((*answers.records, command), KERNEL_TEXT))
    context.journal.cell(
        CellFinished(
            boot_id=boot.boot_id,
            slot=boot.slot,
            cell_id=cell.cell_id,
            at_utc=utc_now(),
            wall_ns=wall_ns,
            request_count=0,
        )
    )
    context.state.finished.add((boot.slot, cell.cell_id))
    if answers.other_lines:
        context.emit(
            Remark(
                f"{cell.cell_id}: not read: {plural(answers.other_lines, 'line')} of the package."
            )
        )
    if answers.unread_lines:
        first = boot.context.scrub.text(answers.unread[0])
        context.emit(
            Remark(f"{cell.cell_id}: {plural(answers.unread_lines, 'answer')} not read. {first}")
        )
    summary = f"{plural(len(answers.records), 'answer')}, status {code}"
    context.emit(CellEnded(slot=boot.slot, cell_id=cell.cell_id, finished=True, summary=summary))


def _abort(boot: _Boot, cell: KernelCell, end: _CommandEnd) -> None:
    context = boot.context
    log = context.folder / "logs" / f"{boot.boot_id}.{cell.cell_id}.log"
    reason = end.detail
    if end.code is not None:
        reason = f"The command ended with status {end.code}: {last_log_line(log)}"
    reason = cut_at_word(boot.context.scrub.text(reason), _LONGEST_REASON)
    context.journal.cell(
        CellAborted(
            boot_id=boot.boot_id,
            slot=boot.slot,
            cell_id=cell.cell_id,
            at_utc=utc_now(),
            cause=end.cause,
            reason=reason,
        )
    )
    context.emit(CellEnded(slot=boot.slot, cell_id=cell.cell_id, finished=False, summary=reason))

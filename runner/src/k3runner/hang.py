"""What a hung engine was doing: stacks of its processes, in a log of the run.

A decode path that waits for another GPU without a time limit neither answers nor dies, so nothing
but its stacks tells where it waits. They are taken while its requests are still in flight:

- by py-spy, where it is installed beside the engine or on the PATH;
- else, and always at the end, by SIGABRT: engines are started with PYTHONFAULTHANDLER, which writes
  the stacks of all threads to the engine's log before the process ends. A hung engine is ended
  anyway.

The client's own tasks stand there too: a client that waits for itself looks the same from outside.
"""

import asyncio
import io
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from k3runner.engine_process import EngineProcess

__all__ = ["dump_stacks"]

_PY_SPY = "py-spy"
_PY_SPY_LIMIT_S = 20.0
_END_LIMIT_S = 5.0
_POLL_S = 0.05
_LOG_LIMIT_BYTES = 256 * 1024


async def dump_stacks(
    process: EngineProcess | None,
    *,
    engine_python: Path | None,
    out: Path,
    clean: Callable[[str], str],
) -> None:
    """Writes what can be had to `out`, and ends the engine with it.

    Args:
        process: The engine; None for an existing server, which is left alone.
        engine_python: Python of the engine; py-spy is looked for beside it.
        out: File to write.
        clean: Returns what may be written of a text.
    """
    parts = [("tasks of the referee", _own_tasks())]
    if process is not None:
        pids = process.processes()
        parts += await asyncio.to_thread(_spy, pids, _find_py_spy(engine_python))
        written = _size(process.log)
        process.abort()
        for _ in range(round(_END_LIMIT_S / _POLL_S)):
            if process.ended() is not None:
                break
            await asyncio.sleep(_POLL_S)
        parts.append(("engine log from the moment it was aborted", _rest(process.log, written)))
    text = "".join(f"=== {title}\n{text}\n" for title, text in parts)
    out.write_text(clean(text), "utf-8")


def _own_tasks() -> str:
    sink = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(file=sink)
    return sink.getvalue()


def _find_py_spy(engine_python: Path | None) -> str | None:
    beside = None if engine_python is None else str(engine_python.parent)
    folders = [folder for folder in (beside, os.environ.get("PATH")) if folder]
    return shutil.which(_PY_SPY, path=os.pathsep.join(folders))


def _spy(pids: list[int], py_spy: str | None) -> list[tuple[str, str]]:
    if py_spy is None:
        return [(_PY_SPY, "not installed")]
    found: list[tuple[str, str]] = []
    for pid in pids:
        try:
            done = subprocess.run(
                [py_spy, "dump", "--pid", str(pid)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_PY_SPY_LIMIT_S,
                check=False,
            )
            text = done.stdout.decode("utf-8", "replace")
        except (subprocess.TimeoutExpired, OSError) as error:
            text = f"{error!r}"
        found.append((f"{_PY_SPY} of an engine process", text))
    return found


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _rest(log: Path, start: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read(_LOG_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"{error!r}"

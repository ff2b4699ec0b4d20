"""Running one tool with its output kept in a log, and telling why it failed in words."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from k3house.place import LOG
from k3house.problem import HouseError

__all__ = ["ToolFailedError", "explain", "run_tool", "tool_environment"]

_TAIL_LINES = 12
_LINE_LIMIT = 300
_TERM_WAIT_S = 10.0


class ToolFailedError(Exception):
    """A tool ended with an error; `output` is everything it said."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        super().__init__(f"{command[0]} ended with status {status}")
        self.output = output


def tool_environment() -> dict[str, str]:
    """The environment for tools: byte code is kept, so that a second start is fast."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"}
        # Variables of the calling make must not reach a make that a test starts.
        and name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
    }
    return environment | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"}


def run_tool(
    command: Sequence[str | Path],
    *,
    log: str,
    more: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
) -> str:
    """Run a tool to its end and return what it said.

    Args:
        command: Program and arguments.
        log: Name of the log that the output is appended to.
        more: Variables on top of `tool_environment`.
        working_folder: Where it runs; None: where this process runs.

    Raises:
        ToolFailedError: It ended with an error.
    """
    words = [str(part) for part in command]
    LOG.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=tool_environment() | dict(more or {}),
        start_new_session=True,
        cwd=working_folder,
    )
    try:
        output, _ = process.communicate()
    except BaseException:
        _end_group(process)
        raise
    with (LOG / f"{log}.log").open("a") as file:
        file.write(f"$ {' '.join(words)}\n{output}\n")
    if process.returncode:
        raise ToolFailedError(words, process.returncode, output)
    return output


def _end_group(process: subprocess.Popen[str]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(timeout=_TERM_WAIT_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


_NO_SPACE = ("no space left on device", "os error 28", "errno 28", "disk quota exceeded")
_HASH = ("hash mismatch", "do not match the hashes", "hashes are required")
_NO_NETWORK = (
    "error sending request",
    "failed to fetch",
    "dns error",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "name resolution",
    "newconnectionerror",
    "timed out",
    "client error (connect)",
    "connection broken",
    "network connectivity is disabled",
    # pip says this of an index that does not answer, once its retries are over.
    "from versions: none",
)
_NOT_OFFERED = ("no solution found", "no matching distribution", "could not find a version")


def explain(output: str, what: str) -> HouseError:
    """The problem behind a failed installation, as a sentence with a next step.

    Args:
        output: What the tool said.
        what: What was being done, for example `installing the engine environment`.
    """
    said = output.lower()

    def telling(signs: tuple[str, ...]) -> str:
        """The first line that holds one of the signs."""
        lines = (line for line in output.splitlines() if any(s in line.lower() for s in signs))
        return next(lines, "").strip()[:_LINE_LIMIT].rstrip(".:")

    if any(sign in said for sign in _NO_SPACE):
        return HouseError(
            f"The disk filled up while {what}.",
            "free some space and run the same command again; what was finished is reused.",
        )
    if any(sign in said for sign in _HASH):
        return HouseError(
            f"A downloaded file has another digest than the lock asks for, while {what}: "
            f"{telling(_HASH)}.",
            "check where your package index, mirror or wheel folder gets this file from; "
            "nothing of it was installed.",
        )
    if any(sign in said for sign in _NO_NETWORK):
        return HouseError(
            f"The package index could not be reached while {what}: {telling(_NO_NETWORK)}.",
            "check the network, set UV_DEFAULT_INDEX or PIP_INDEX_URL to a mirror, or give a "
            "folder that holds the wheels: make eval WHEELS=DIR (requirements/README.md).",
        )
    if any(sign in said for sign in _NOT_OFFERED):
        return HouseError(
            f"No source offers a file that the lock asks for, while {what}: "
            f"{telling(_NOT_OFFERED)}.",
            "give a folder that holds the missing wheels: make eval WHEELS=DIR "
            "(requirements/README.md).",
        )
    tail = "\n".join(output.splitlines()[-_TAIL_LINES:])
    return HouseError(
        f"A tool failed while {what}; it said:\n{tail}\n",
        f"the whole output is under {LOG}; run the same command again after the cause is gone.",
    )

"""Starts, watches and stops one engine process through its supervisor."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from k3runner import engine_supervisor
from k3runner.engine_command import EngineCommand
from k3runner.engine_log import last_log_line
from k3runner.errors import EngineError, MachineError
from k3runner.process_output import BoundedOutput, CleanLog, OutputPipe
from k3runner.separation.engine_user import OtherUser

__all__ = ["EngineEnd", "EngineProcess", "choose_port", "start_engine"]

_SUPERVISOR_MARGIN_S = 10.0
_START_S = 20.0
_LAST_WORDS_S = 5.0
"""For what an engine said at its end to be in its log."""
_OF_SUPERVISOR = ("PATH", "LD_LIBRARY_PATH", "LANG")
"""What the runner's own Python may need to start."""


@dataclass(frozen=True)
class EngineEnd:
    """How an engine process ended."""

    how: Literal["clean", "killed", "crashed"]
    """`clean` and `killed` were asked for; `crashed` was not."""
    code: int | None
    """Exit status, negative for a signal; None when the supervisor could not say."""
    detail: str
    """One sentence."""


def choose_port(wanted: int | None) -> int:
    """A free port on 127.0.0.1.

    Args:
        wanted: The port that must be used; None: any.

    Raises:
        MachineError: The wanted port is in use.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted or 0))
        except OSError as error:
            raise MachineError(
                f"Port {wanted} on 127.0.0.1 is in use.",
                "Stop what listens there, or unset K3EVAL_ENGINE_PORT to get a free port.",
            ) from error
        port: int = probe.getsockname()[1]
        return port


class EngineProcess:
    """One running engine. `stop` may be called at any time and any number of times."""

    def __init__(
        self,
        supervisor: "subprocess.Popen[bytes]",
        pid: int,
        log: Path,
        pipes: Sequence[OutputPipe],
    ) -> None:
        self._supervisor = supervisor
        self._pipes = pipes
        self._end: EngineEnd | None = None
        self._aborted = False
        self.pid = pid
        """Process id of the engine."""
        self.log = log
        """Its log file; whole once it has ended."""

    def ended(self) -> EngineEnd | None:
        """How the engine ended by itself or by `stop`; None while it runs."""
        if self._end is None and self._supervisor.poll() is not None:
            self._end = self._collect()
        return self._end

    def processes(self) -> list[int]:
        """Process ids of the engine and everything that it started, the supervisor left out."""
        session = self._supervisor.pid
        return [pid for pid in _processes_of_session(session) if pid != session]

    def abort(self) -> None:
        """Sends SIGABRT to the engine and everything that it started, so that stacks are written.

        Processes that may not be signalled are left; `stop` ends them.
        """
        self._aborted = True
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGABRT)

    def stop(self, grace_s: float) -> EngineEnd:
        """Ends the engine and everything that it started.

        Args:
            grace_s: Time between SIGTERM and SIGKILL.

        Returns:
            How it ended; `crashed` when it had ended before.

        Raises:
            MachineError: Processes of the engine are left.
        """
        already = self.ended()
        if already is not None:
            return already
        with contextlib.suppress(OSError):
            _pipe(self._supervisor.stdin).write(f"stop {grace_s}\n".encode())
            _pipe(self._supervisor.stdin).flush()
        try:
            self._supervisor.wait(grace_s + _SUPERVISOR_MARGIN_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        self._end = self._collect()
        return self._end

    def _collect(self) -> EngineEnd:
        report: dict[str, object] = {}
        for line in _pipe(self._supervisor.stdout).read().splitlines():
            report = json.loads(line)
        for stream in (self._supervisor.stdin, self._supervisor.stdout):
            with contextlib.suppress(OSError):
                _pipe(stream).close()
        self._require_nothing_left()
        for pipe in self._pipes:
            pipe.wait(_LAST_WORDS_S)
        if report.get("event") != "ended":
            return EngineEnd("killed", None, "The supervisor of the engine was killed.")
        code = report["code"] if isinstance(report["code"], int) else None
        if self._aborted:
            return EngineEnd("killed", code, "The engine hung and was aborted for its stacks.")
        if not report["asked"]:
            why = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
            return EngineEnd(
                "crashed", code, f"The engine ended with {why}: {last_log_line(self.log)}"
            )
        if report["killed"]:
            return EngineEnd("killed", code, "The engine did not end on SIGTERM and was killed.")
        return EngineEnd("clean", code, "The engine ended when it was asked to.")

    def _require_nothing_left(self) -> None:
        """Kills what is left of the supervisor's session; normally nothing is."""
        session = self._supervisor.pid
        for _ in range(50):
            left = _processes_of_session(session)
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        raise MachineError(
            f"Processes of the engine are left: {sorted(_processes_of_session(session))}.",
            "End them by hand, then resume the run.",
        )


def start_engine(
    command: EngineCommand,
    *,
    log: Path,
    clean: Callable[[str], str],
    folder: Path,
    user: OtherUser | None = None,
    out: BoundedOutput | None = None,
) -> EngineProcess:
    """Starts an engine.

    Args:
        command: What to run.
        log: File that output is appended to.
        clean: Returns what may be kept of a text; what the engine says reaches the log through it.
        folder: Working folder of the engine.
        user: User that it runs as; None: the runner's own.
        out: Keeps standard output; None: it goes to the log too.

    Raises:
        EngineError: The program could not be started at all.
    """
    pipes = [OutputPipe(CleanLog(log, clean).take)]
    if out is not None:
        pipes.append(OutputPipe(out.take))
    ends = [pipe.write_end for pipe in pipes]
    supervisor = subprocess.Popen(
        [
            *(sys.executable, "-I", engine_supervisor.__file__),
            *(str(ends[0]), str(ends[-1]), str(folder)),
            "-" if user is None else f"{user.uid}:{user.gid}",
            *command.argv,
        ],
        pass_fds=ends,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in _OF_SUPERVISOR if name in os.environ},
        start_new_session=True,
    )
    for pipe in pipes:
        pipe.begin()
    with contextlib.suppress(BrokenPipeError):
        _pipe(supervisor.stdin).write(json.dumps(dict(command.environment)).encode() + b"\n")
        _pipe(supervisor.stdin).flush()
    stdout = _pipe(supervisor.stdout)
    readable, _, _ = select.select([stdout], [], [], _START_S)
    line = stdout.readline() if readable else b""
    if not line:
        supervisor.kill()
        said = _pipe(supervisor.stderr).read().decode("utf-8", "replace").strip().splitlines()
        supervisor.wait()
        for stream in (supervisor.stdin, stdout, supervisor.stderr):
            _pipe(stream).close()
        raise EngineError(
            f"The engine could not be started: {said[-1] if said else 'no word from it'}.",
            f"Check that {command.argv[0]} is the engine's Python.",
        )
    _pipe(supervisor.stderr).close()
    return EngineProcess(supervisor, int(json.loads(line)["pid"]), log, pipes)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    # Popen types its pipes as optional; all three are always pipes here.
    if stream is None:
        raise AssertionError("the supervisor has no pipe")
    return stream


def _processes_of_session(session: int) -> list[int]:
    """Processes of a session that are not zombies."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The command name may hold spaces and brackets; fields are counted after it.
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found

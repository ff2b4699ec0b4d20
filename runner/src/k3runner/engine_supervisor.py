"""Holds one engine process, and ends it when the runner says so or is gone.

Run as a script with the runner's Python in isolated mode; standard library only. Standard input
is the lifeline: a line `stop SECONDS` ends the engine, and so does the end of the input, which
happens when the runner dies in whatever way. The first line is the engine's environment as JSON,
since the supervisor may be root and nothing that an arm sets may reach its own loader. Arguments:
descriptors for the engine's standard error and standard output, working folder, `UID:GID` of the
engine or `-` for the supervisor's own, and the engine's command. Standard output gets one JSON line
when the engine has started and one when nothing of it is left.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_ORPHAN_GRACE_S = 3.0
"""Time for a clean stop when the runner is gone."""
_POLL_S = 0.02


def main() -> int:
    """Starts the engine and waits for its end or for the runner's."""
    log, out, folder, user, *command = sys.argv[1:]
    sinks = {int(log), int(out)}
    environment = json.loads(_first_line())
    uid, gid = (None, None) if user == "-" else map(int, user.split(":"))
    libc = ctypes.CDLL(None, use_errno=True)
    # Grandchildren whose parent dies come to this process instead of init, so none escapes.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    stop_requested = False

    def on_terminate(_number: int, _frame: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    signal.signal(signal.SIGTERM, on_terminate)

    def die_with_supervisor() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if uid is not None:
            # No program with more rights than the engine's user, such as sudo, works for it.
            libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    # The supervisor has one thread, so running code between fork and exec is safe here.
    engine = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=int(out),
        stderr=int(log),
        cwd=folder,
        env=environment,
        process_group=0,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
        preexec_fn=die_with_supervisor,  # noqa: PLW1509
    )
    # The engine's alone from here on: their end is that of the last process that has them.
    for sink in sinks:
        os.close(sink)
    _report({"event": "started", "pid": engine.pid})
    grace_s: float | None = None
    while engine.poll() is None and grace_s is None:
        grace_s = _ORPHAN_GRACE_S if stop_requested else _lifeline(_POLL_S)
    killed = _end_everything(engine, 0.0 if grace_s is None else grace_s)
    _report({"event": "ended", "code": engine.returncode, "asked": grace_s is not None,
             "killed": killed})  # fmt: skip
    return 0


def _first_line() -> bytes:
    """The first line of standard input, and not a byte more: the rest is the lifeline's."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("The runner was gone before it had said how to start the engine.")
        line += byte
    return line


def _lifeline(wait_s: float) -> float | None:
    """Seconds of grace when the engine has to end; None while it may live."""
    readable, _, _ = select.select([0], [], [], wait_s)
    if not readable:
        return None
    line = os.read(0, 256).decode("ascii", "replace").split()
    if len(line) == 2 and line[0] == "stop":  # noqa: PLR2004
        return float(line[1])
    return _ORPHAN_GRACE_S


def _end_everything(engine: "subprocess.Popen[bytes]", grace_s: float) -> bool:
    """Ends the engine and all its descendants; True when SIGKILL was needed for the engine."""
    killed = False
    if engine.poll() is None:
        _signal_group(engine.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while engine.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        killed = engine.poll() is None
    _signal_group(engine.pid, signal.SIGKILL)
    engine.wait()
    while True:
        for child in _children():
            _signal(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return killed


def _children() -> list[int]:
    """Direct children; orphaned descendants have become direct ones."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _report(record: dict[str, object]) -> None:
    try:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()
    except OSError:
        # The runner is gone; the engine still has to be ended.
        return


if __name__ == "__main__":
    sys.exit(main())

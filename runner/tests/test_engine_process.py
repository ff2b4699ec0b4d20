import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k3runner.engine_command import EngineCommand
from k3runner.engine_process import EngineProcess, choose_port, start_engine
from k3runner.errors import EngineError, MachineError

Start = Callable[..., EngineProcess]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], limit_s: float = 20.0) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def command(code: str, port: int = 0) -> EngineCommand:
    environment = {"PATH": os.environ["PATH"], "ONLY": "this"}
    return EngineCommand(argv=(sys.executable, "-c", code), environment=environment, port=port)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[EngineProcess] = []

    def start_code(code: str) -> EngineProcess:
        process = start_engine(
            command(code), log=tmp_path / "engine.log", clean=str, folder=tmp_path
        )
        started.append(process)
        return process

    yield start_code
    for process in started:
        process.stop(0.1)


SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
# A grandchild in a session of its own whose parent is gone: the hardest to find.
ESCAPED = (
    "import os, subprocess, sys\n"
    "inner = 'import signal,time,os; signal.signal(signal.SIGTERM, signal.SIG_IGN);'\n"
    'inner += \'open("escaped.pid","w").write(str(os.getpid())); time.sleep(600)\'\n'
    "outer = 'import subprocess,sys; subprocess.Popen([sys.executable,\"-c\",sys.argv[1]],'\n"
    "outer += 'start_new_session=True)'\n"
    "subprocess.run([sys.executable, '-c', outer, inner], check=True)\n" + SLEEP
)


def test_stop_running_engine_is_clean(start: Start) -> None:
    process = start(SLEEP)
    assert process.ended() is None
    end = process.stop(5.0)
    assert (end.how, end.code) == ("clean", -signal.SIGTERM)
    assert not alive(process.pid)
    assert process.stop(5.0) == end


def test_stop_engine_that_ignores_sigterm_kills_it(start: Start) -> None:
    process = start(STUBBORN)
    assert wait_until(lambda: "up" in process.log.read_text("utf-8"))
    end = process.stop(0.2)
    assert end.how == "killed"
    assert not alive(process.pid)


def test_stop_ends_escaped_grandchildren(start: Start, tmp_path: Path) -> None:
    process = start(ESCAPED)
    assert wait_until(lambda: "up" in process.log.read_text("utf-8"))
    note = tmp_path / "escaped.pid"
    assert wait_until(lambda: note.is_file() and note.read_text("utf-8") != "")
    escaped = int(note.read_text("utf-8"))
    assert alive(escaped)
    process.stop(0.5)
    assert not alive(escaped)


def test_ended_engine_that_dies_quotes_its_error(start: Start) -> None:
    process = start("print('INFO loading'); raise ValueError('no such backend: fast')")
    assert wait_until(lambda: process.ended() is not None)
    end = process.ended()
    assert end is not None
    assert end.how == "crashed"
    assert end.detail == "The engine ended with status 1: ValueError: no such backend: fast"


def test_ended_engine_that_is_killed_names_the_signal(start: Start) -> None:
    process = start(SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: process.ended() is not None)
    end = process.ended()
    assert end is not None
    assert "signal 9" in end.detail


def test_engine_gets_only_its_own_environment(start: Start) -> None:
    process = start("import os; print(sorted(k for k in os.environ if k != 'LC_CTYPE'))")
    assert wait_until(lambda: process.ended() is not None)
    assert process.log.read_text("utf-8").strip() == "['ONLY', 'PATH']"


def test_start_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    missing = EngineCommand(argv=("/nowhere/python",), environment={}, port=0)
    with pytest.raises(EngineError, match="could not be started"):
        start_engine(missing, log=tmp_path / "log", clean=str, folder=tmp_path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_engine_does_not_outlive_a_killed_runner(how: signal.Signals, tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", _RUNNER, str(tmp_path), STUBBORN], stdout=subprocess.PIPE
    )
    assert runner.stdout is not None
    pid = int(runner.stdout.readline())
    assert alive(pid)
    runner.send_signal(how)
    runner.wait()
    runner.stdout.close()
    assert wait_until(lambda: not alive(pid))


def test_engine_does_not_outlive_a_killed_supervisor(start: Start) -> None:
    process = start(STUBBORN)
    os.kill(_parent(process.pid), signal.SIGKILL)
    assert wait_until(lambda: not alive(process.pid))
    end = process.stop(1.0)
    assert end.how == "killed"


def test_choose_port_in_use_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MachineError, match=f"Port {port} on 127.0.0.1 is in use"):
            choose_port(port)


def test_choose_port_free_can_be_served(tmp_path: Path) -> None:
    port = choose_port(None)
    argv = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    process = start_engine(
        EngineCommand(argv=argv, environment={}, port=port),
        log=tmp_path / "log",
        clean=str,
        folder=tmp_path,
    )
    assert wait_until(lambda: _answers(port))
    process.stop(2.0)
    assert not _answers(port)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1) as response:
            return int(response.status) == 200
    except OSError:
        return False


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


_RUNNER = """
import sys, time
from pathlib import Path
from k3runner.engine_command import EngineCommand
from k3runner.engine_process import start_engine
folder = Path(sys.argv[1])
command = EngineCommand(argv=(sys.executable, "-c", sys.argv[2]), environment={}, port=0)
process = start_engine(command, log=folder / "log", clean=str, folder=folder)
print(process.pid, flush=True)
time.sleep(600)
"""

"""A hung engine says where it hung."""

import os
import stat
import sys
from pathlib import Path

from k3runner.engine_command import EngineCommand
from k3runner.engine_process import EngineProcess, start_engine
from k3runner.hang import dump_stacks

_WAITS = """
import threading, time
def wait_for_a_peer_that_never_comes():
    print("up", flush=True)
    threading.Event().wait()
wait_for_a_peer_that_never_comes()
"""


def start(folder: Path) -> EngineProcess:
    environment = {"PATH": os.environ["PATH"], "PYTHONFAULTHANDLER": "1"}
    argv = (sys.executable, "-c", _WAITS)
    command = EngineCommand(argv=argv, environment=environment, port=0)
    process = start_engine(command, log=folder / "engine.log", clean=str, folder=folder)
    while b"up" not in process.log.read_bytes():
        pass
    return process


def fake_py_spy(folder: Path) -> Path:
    """A program of that name, beside a Python that does not exist."""
    script = folder / "py-spy"
    script.write_text('#!/bin/sh\necho "Thread 1 of $3: waiting in all_reduce"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder / "python"


async def test_b43_abort_writes_the_stack_of_the_hung_engine(tmp_path: Path) -> None:
    process = start(tmp_path)
    pid = process.pid
    await dump_stacks(process, engine_python=None, out=tmp_path / "hang.log", clean=str)
    found = (tmp_path / "hang.log").read_text()
    assert "in wait_for_a_peer_that_never_comes" in found
    assert "test_b43_abort_writes_the_stack" in found
    end = process.stop(0.1)
    assert (end.how, end.detail) == ("killed", "The engine hung and was aborted for its stacks.")
    assert not Path(f"/proc/{pid}").exists()


async def test_b43_py_spy_is_asked_where_it_is_installed(tmp_path: Path) -> None:
    process = start(tmp_path)
    await dump_stacks(
        process,
        engine_python=fake_py_spy(tmp_path),
        out=tmp_path / "hang.log",
        clean=lambda text: text.replace("all_reduce", "<place>"),
    )
    found = (tmp_path / "hang.log").read_text()
    assert f"Thread 1 of {process.pid}: waiting in <place>" in found
    process.stop(0.1)


async def test_existing_server_is_left_alone(tmp_path: Path) -> None:
    await dump_stacks(None, engine_python=None, out=tmp_path / "hang.log", clean=str)
    found = (tmp_path / "hang.log").read_text()
    assert found.startswith("=== tasks of the referee\n")
    assert "engine log" not in found

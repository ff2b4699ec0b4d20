import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from k3server.cli import main
from k3server.exit_code import ExitCode
from k3server_testing.process import RegistryProcess


def serve(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "k3server.cli", "serve", f"--data={data}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of stderr of a registry that could not start."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line.removeprefix("k3-registry: ")


def test_serve_answers_and_sigterm_stops_it_cleanly(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "new" / "data") as registry:
        with registry.client() as client:
            assert client.get("/healthz").json() == {"status": "ok"}
            assert registry.url in client.get("/").text
        status, out, words = registry.stop()
    assert (status, out) == (ExitCode.CLEAN, "")
    assert "Traceback" not in words


def test_serve_ctrl_c_exits_130(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path) as registry:
        status, _, words = registry.stop(signal.SIGINT)
    assert status == ExitCode.INTERRUPTED
    assert "Traceback" not in words


def test_serve_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = serve(tmp_path, f"--port={port}")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert sentence(done) == (
        f"Expected port {port} on 127.0.0.1 to be free, found it in use. "
        "Stop what uses it, or choose another one with --port, or any with --port 0."
    )


def test_serve_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = serve(tmp_path / "file" / "data", "--port=0")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert sentence(done).startswith(
        f"Expected to write in the folder {tmp_path}/file/data, found: Not a directory."
    )


def test_serve_folder_on_a_read_only_system_is_a_sentence() -> None:
    done = serve(Path("/proc/k3-registry"), "--port=0")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "Give --data a folder that you may write to" in sentence(done)


def test_serve_second_registry_on_a_folder_is_a_sentence(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path):
        done = serve(tmp_path, "--port=0")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "found another registry at work in it" in sentence(done)


def test_serve_damaged_or_newer_database_is_a_sentence(tmp_path: Path) -> None:
    database = tmp_path / "registry.sqlite3"
    database.write_bytes(b"This is not a database. " * 100)
    damaged = serve(tmp_path, "--port=0")
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")
    newer = serve(tmp_path, "--port=0")
    assert damaged.returncode == newer.returncode == ExitCode.ENVIRONMENT
    assert "found: file is not a database" in sentence(damaged)
    assert "schema version 999" in sentence(newer)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "command"),
        (["serve"], "--data"),
        (["serve", "--data=x", "--port=70000"], "expected a port from 0 to 65535"),
        (["serve", "--data=x", "--port=-1"], "expected a port from 0 to 65535"),
        (["serve", "--data=x", "--known-signer=me"], "expected SHA256: and 43 characters"),
    ],
)
def test_usage_error_exits_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == ExitCode.USAGE
    assert words in capsys.readouterr().err


def test_help_teaches_flags_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out
    for flag in ("--data", "--host", "--port", "--public-url", "--known-signer"):
        assert flag in text
    for code in ExitCode:
        assert str(code.value) in text

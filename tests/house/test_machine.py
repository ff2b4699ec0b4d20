"""What the machine must have, said in sentences."""

import fcntl
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from k3house import machine
from k3house.problem import HouseError


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("python_implementation", "PyPy"),
        ("system", "Darwin"),
        ("machine", "aarch64"),
    ],
)
def test_engine_on_another_machine_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, what: str, value: str
) -> None:
    monkeypatch.setattr(platform, what, lambda: value)
    with pytest.raises(HouseError, match=r"locked for CPython 3\.11 on Linux x86_64") as caught:
        machine.check_engine_python()
    assert value in str(caught.value)
    assert "make eval ENGINE_URL=" in str(caught.value)
    assert caught.value.exit_code == 5


def test_engine_with_another_python_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    with pytest.raises(HouseError, match="make eval ENGINE_URL="):
        machine.check_engine_python()


@pytest.mark.parametrize("found", [("glibc", "2.28"), ("", "")])
def test_engine_with_an_old_or_another_c_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: tuple[str, str]
) -> None:
    monkeypatch.setattr(platform, "python_implementation", lambda: "CPython")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    monkeypatch.setattr(platform, "libc_ver", lambda: found)
    with pytest.raises(HouseError, match=r"glibc 2\.31 or newer"):
        machine.check_engine_python()


def test_room_is_looked_for_where_a_folder_will_be(tmp_path: Path) -> None:
    machine.check_room(tmp_path / "not" / "yet", 1, "a test")
    with pytest.raises(HouseError, match="No room for a test"):
        machine.check_room(tmp_path / "not" / "yet", 1 << 60, "a test")


def test_second_installation_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "HOUSE", tmp_path)
    entered = threading.Event()

    def second() -> None:
        with machine.one_at_a_time("waiting for the other one"):
            entered.set()

    with (tmp_path / "install.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.2)
        assert not entered.is_set()
    thread.join(timeout=10)
    assert entered.is_set()
    assert "waiting for the other one" in capsys.readouterr().err


def test_lock_of_a_killed_installer_is_free(tmp_path: Path) -> None:
    script = (
        "import fcntl, os, signal\n"
        f"file = open({str(tmp_path / 'install.lock')!r}, 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with (tmp_path / "install.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""The second build of a check: other surroundings, and a clock that is ahead where it is asked."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from k3image import debian, room, surroundings
from k3image.apart import Apart, Asked, told_file, wait_for_all
from k3image.engine import mounts_below
from k3image.problem import ImageError
from k3image.surroundings import (
    ORDINARY,
    OTHER,
    Clock,
    Surroundings,
    find_clock,
    forget_ended,
    lay_out_clock,
)


def test_the_two_builds_share_no_setting() -> None:
    assert ORDINARY.name != OTHER.name
    assert ORDINARY.umask != OTHER.umask
    for name, value in ORDINARY.environment.items():
        assert OTHER.environment[name] != value
    assert (ORDINARY.host, ORDINARY.days_ahead) == (None, 0)
    assert OTHER.host is not None
    assert OTHER.days_ahead == 40


def test_a_machine_s_name_is_set_for_one_command_alone() -> None:
    before = os.uname().nodename
    around = Surroundings("x", 0o022, host="elsewhere")
    said = subprocess.run(
        around.command(("sh", "-c", "hostname")), capture_output=True, text=True, check=False
    )
    # Who may not make namespaces is told so by the command itself.
    assert said.stdout == "elsewhere\n" or "Operation not permitted" in said.stderr
    assert os.uname().nodename == before
    assert Surroundings("x", 0o022).command(("a", "b")) == ["a", "b"]


def test_without_the_library_there_is_no_other_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_PLACES", ("/nowhere",))
    assert find_clock(0) is None
    with pytest.raises(ImageError, match="libfaketime is not here"):
        find_clock(40)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    library = tmp_path / surroundings.LIBRARY
    library.write_bytes(b"x")
    return Clock(library, 40)


def test_the_build_is_told_of_the_clock(clock: Clock, tmp_path: Path) -> None:
    lay_out_clock(clock, tmp_path / "clock")
    told = json.loads((tmp_path / "clock" / "clock.json").read_text())
    assert told["environment"]["FAKETIME"] == "+40d"
    assert told["environment"]["LD_PRELOAD"] == "/opt/k3eval/wheels/clock/libfaketime.so.1"
    assert 38 * 86_400 < told["not_before"] - time.time() < 40 * 86_400
    assert (tmp_path / "clock" / surroundings.LIBRARY).read_bytes() == b"x"


def test_the_build_starts_again_under_the_clock_and_refuses_one_that_stands(
    install: ModuleType, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(install, "WHEELS", tmp_path)
    monkeypatch.setattr(install.os, "execv", lambda *words: started.append(words))
    monkeypatch.setattr(install.os, "environ", {})
    install.start_with_other_clock()
    assert started == []
    lay_out_clock(clock, tmp_path / "clock")
    with pytest.raises(SystemExit, match="the clock of the build was not moved"):
        install.start_with_other_clock()
    assert started == [(sys.executable, [sys.executable, *sys.orig_argv[1:]])]
    ahead = time.time() + 40 * 86_400
    monkeypatch.setattr(install.time, "time", lambda: ahead)
    install.start_with_other_clock()
    assert len(started) == 1


def test_a_clock_that_stands_inside_the_base_is_refused(clock: Clock, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_text(f"{int(time.time())}\n")
    with pytest.raises(ImageError, match=r"was -?0\.0 days ahead, not 40"):
        debian._require_ahead(clock, told)
    told.write_text(f"{int(time.time()) + 40 * 86_400}\n")
    debian._require_ahead(clock, told)


def test_a_full_disk_is_a_sentence_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 5 << 30})
    monkeypatch.setattr("k3image.room.shutil.disk_usage", lambda _: usage)
    room.require_room(tmp_path / "not" / "yet", "registry")
    with pytest.raises(ImageError, match=r"5\.0 GiB are free, and 2 builds of cpu may take 18"):
        room.require_room(tmp_path / "not" / "yet", "cpu", builds=2)


def test_what_ended_processes_left_of_the_clock_is_forgotten(tmp_path: Path) -> None:
    shared, processes = tmp_path / "shm", tmp_path / "proc"
    for folder in (shared, processes, processes / "7"):
        folder.mkdir()
    kept = {"sem.faketime_sem_7", "faketime_shm_7", "faketime_shm_x", "sem.mp-8"}
    for name in (*kept, "sem.faketime_sem_8", "faketime_shm_8"):
        (shared / name).touch()
    forget_ended(shared, processes)
    assert {path.name for path in shared.iterdir()} == kept


def test_mounts_below_a_folder_are_named_in_order() -> None:
    table = (
        "proc /proc proc rw 0 0\n/dev/x /a/b\\040c/overlay ext4 rw 0 0\n"
        "overlay /a/b\\040c/overlay/1/merged overlay rw 0 0\ntmpfs /a/b tmpfs rw 0 0\n"
    )
    assert mounts_below(Path("/a/b c"), table) == ["/a/b c/overlay", "/a/b c/overlay/1/merged"]


@pytest.mark.parametrize(("gib", "has_room"), [(20, True), (19, False)])
def test_stores_lie_in_memory_only_where_enough_is_left(gib: int, *, has_room: bool) -> None:
    meminfo = f"MemTotal:       99999999 kB\nMemAvailable:   {gib << 20} kB\n"
    assert room.memory_has_room(meminfo, stores=2) is has_room
    assert not room.memory_has_room("MemTotal: 99999999 kB\n", stores=2)


def _asked(tmp_path: Path) -> Asked:
    return Asked("cpu", Path(sys.executable), tmp_path, tmp_path, "one", 0)


def test_a_build_that_fails_says_its_status(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"])
    with pytest.raises(ImageError, match="The build in one ended with status 4") as refused:
        Apart(_asked(tmp_path), process).wait()
    assert refused.value.exit_code == 4


def test_a_build_says_what_it_built_and_can_be_stopped(tmp_path: Path) -> None:
    told_file(tmp_path, "one").write_text('{"name": "n", "digest": "d", "base_digest": "b"}')
    built = Apart(_asked(tmp_path), subprocess.Popen(["true"])).wait()
    assert (built.name, built.digest, built.base_digest) == ("n", "d", "b")
    process = subprocess.Popen(["sleep", "60"])
    Apart(_asked(tmp_path), process).stop()
    assert process.returncode == -15


def test_a_build_that_fails_is_not_kept_waiting_by_the_other(tmp_path: Path) -> None:
    slow = Apart(_asked(tmp_path), subprocess.Popen(["sleep", "60"]))
    failed = Apart(_asked(tmp_path), subprocess.Popen(["false"]))
    try:
        with pytest.raises(ImageError, match="ended with status 1"):
            wait_for_all([slow, failed], every_s=0.01)
        assert not slow.has_ended()
    finally:
        slow.stop()
    told_file(tmp_path, "one").write_text('{"name": "n", "digest": "d", "base_digest": "b"}')
    well = [Apart(_asked(tmp_path), subprocess.Popen(["sleep", pause])) for pause in ("0.1", "0")]
    assert [one.digest for one in wait_for_all(well, every_s=0.01)] == ["d", "d"]

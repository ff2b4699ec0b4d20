"""What a run leaves when it is killed, as another user or as root, and what the next one says."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import k3runner_testing
from k3runner import leftovers
from k3runner.errors import MachineError
from k3runner.leftovers import (
    left_homes,
    left_sentences,
    refuse_files_of_others,
    runs_of_others,
    user_name,
)
from k3runner.run import ConfigOverrides, resume
from k3runner.separation.engine_home import EngineHomes
from k3runner.separation.engine_user import OtherUser, _why_unable

OWN = os.geteuid()
NOBODY = 65534
# Runs as another user where that is possible, tells each finished cell, and is then killed.
RUNNER = """
import os, sys
from pathlib import Path
uid = int(sys.argv[2])
if os.geteuid() != uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
from k3runner import events
from k3runner.run import run
from k3runner_testing.run_case import CHANGE, fake_config
def tell(event):
    if isinstance(event, events.CellEnded):
        print(event.slot, event.cell_id, flush=True)
run(fake_config(Path(sys.argv[1])), CHANGE, tell)
"""
HOLDER = """
import os, signal, sys
from k3runner.separation.engine_home import EngineHomes
from k3runner.separation.engine_user import OtherUser
with EngineHomes(OtherUser(os.geteuid(), os.getegid(), "somebody")) as homes:
    with homes.home("candidate") as home:
        (home.folder / "cache").write_text("compiled")
        print(homes.folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def _user_of_the_run() -> int:
    """Nobody, where this is root and nobody can run this Python; else whoever this is."""
    if OWN != 0:
        return OWN
    user = OtherUser(NOBODY, NOBODY, "nobody")
    places = [Path(sys.executable), Path(leftovers.__file__), Path(k3runner_testing.__file__)]
    return OWN if _why_unable(user, Path(sys.executable), places) else NOBODY


def _killed(arguments: list[str], until: Callable[[str], bool]) -> None:
    """Starts a runner and kills it at the line that is waited for."""
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, *arguments], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    assert runner.stdout is not None
    while not until(runner.stdout.readline()):
        assert runner.poll() is None
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    runner.stdout.close()


def test_b44_a_killed_run_leaves_files_of_its_own_user_and_others_are_told(tmp_path: Path) -> None:
    uid = _user_of_the_run()
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    os.chown(tmp_path, uid, -1)
    _killed([str(tmp_path), str(uid)], lambda line: line.startswith("0 "))
    (folder,) = (tmp_path / "runs").iterdir()
    owners = {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}
    assert owners == {uid}
    refuse_files_of_others(folder, uid=uid)
    with pytest.raises(MachineError) as refused:
        refuse_files_of_others(folder, uid=uid + 1)
    assert f"of another user in {folder}, for example {folder} of " in str(refused.value)
    assert f"Resume it as {user_name(uid)}, or take the files over with" in refused.value.hint
    assert f"sudo chown -R {uid + 1} {folder}" in refused.value.hint


def test_b44_resume_looks_at_the_owner_before_it_reads_or_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    (folder / "logs").mkdir(parents=True)
    (folder / "cells.jsonl").write_text("{}\n")
    (folder / "local.json").write_text("would be refused if it were read")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("k3runner.leftovers.os.geteuid", lambda: OWN + 1)
    with pytest.raises(MachineError, match=r"4 paths of another user in .*run, for example"):
        resume(folder, ConfigOverrides(), print)
    assert sorted(tmp_path.rglob("*")) == before


def test_one_file_of_another_user_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("")
    other = tmp_path / "theirs"
    other.write_text("")
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = real(path)
        return os.stat_result((*found[:4], OWN + 7, *found[5:10])) if path == other else found

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(
        MachineError, match=rf"1 path of another user .*theirs of {user_name(OWN + 7)}"
    ):
        refuse_files_of_others(tmp_path)


def test_runs_of_others_are_named_with_their_owner(tmp_path: Path) -> None:
    (tmp_path / "20260101T000000-aa").mkdir()
    assert runs_of_others(tmp_path) == ()
    assert runs_of_others(tmp_path / "missing") == ()
    owner = user_name(OWN)
    assert runs_of_others(tmp_path, uid=OWN + 1) == (
        f"{tmp_path} of {owner}",
        f"{tmp_path}/20260101T000000-aa of {owner}",
    )


def test_a_home_of_an_engine_is_left_only_when_its_runner_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "k3e-of-something-else").mkdir()
    with EngineHomes(OtherUser(OWN, os.getegid(), "somebody")) as homes:
        assert homes.folder.parent == tmp_path
        assert left_homes() == ()
    assert not homes.folder.exists()
    killed = subprocess.run(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert left_homes() == (left,)
    assert (left / "candidate/cache").read_text() == "compiled"
    (sentence,) = left_sentences(tmp_path / "runs")
    assert sentence == (
        f"1 folder of engines left behind when a runner was killed: {left}. "
        f"As {user_name(OWN)}, remove what is no longer needed."
    )


def test_runs_of_others_are_worth_a_remark_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    monkeypatch.setattr("k3runner.leftovers.os.geteuid", lambda: OWN + 1)
    (sentence,) = left_sentences(tmp_path)
    assert sentence.startswith(f"1 folder of runs of other users: {tmp_path} of ")
    assert f"`sudo chown -R {OWN + 1} {tmp_path}`" in sentence
    assert "name another place with --runs" in sentence

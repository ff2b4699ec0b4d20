"""The engine runs as another user where it can, and a reason is given where it cannot."""

import os
import sys
from pathlib import Path

import pytest

from k3runner.engine_command import EngineCommand
from k3runner.engine_process import start_engine
from k3runner.errors import UsageError
from k3runner.separation.engine_home import EngineHomes
from k3runner.separation.engine_user import OtherUser, SameUser, choose_engine_user

SYSTEM_PYTHON = Path("/usr/bin/python3")
"""Another user can run it, unlike a Python in somebody's home."""
SPY = """
import os, sys
def attempt(name, act):
    try:
        act()
    except OSError as error:
        print(name, type(error).__name__)
    else:
        print(name, "done")
attempt("write", lambda: open(sys.argv[1], "a").write("forged"))
attempt("read", lambda: open(sys.argv[1]).read())
attempt("other", lambda: os.listdir(sys.argv[2]))
attempt("root", lambda: os.setuid(0))
attempt("kill", lambda: os.kill(os.getppid(), 9))
attempt("own", lambda: open("mine", "w").write("x"))
print("home", os.environ["HOME"] == os.getcwd(), os.getuid(), os.getgroups())
print("privileges", [l.split()[1] for l in open("/proc/self/status") if l.startswith("NoNewPrivs")])
"""


def test_a_runner_that_is_not_root_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chosen = choose_engine_user(None, engine_python=SYSTEM_PYTHON, readable=[])
    assert isinstance(chosen, SameUser)
    assert chosen.reason.startswith("The runner is not root")
    assert chosen.next_step == "Start it as root to have engines run as nobody."


def test_the_same_user_may_be_asked_for() -> None:
    chosen = choose_engine_user("same", engine_python=SYSTEM_PYTHON, readable=[])
    assert chosen == SameUser("K3EVAL_ENGINE_USER asks for the runner's own user.")


@pytest.mark.parametrize(
    ("wanted", "sentence"), [("0", "must not be root"), ("root", "must not be root"),
                             ("no-such-user", "names no user"), ("99999999999", "names no user")]
)  # fmt: skip
def test_a_user_that_cannot_be_meant_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, wanted: str, sentence: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match=sentence):
        choose_engine_user(wanted, engine_python=SYSTEM_PYTHON, readable=[])


def test_an_engine_that_the_user_cannot_run_is_a_reason_or_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    missing = tmp_path / "python"
    chosen = choose_engine_user(None, engine_python=missing, readable=[])
    assert isinstance(chosen, SameUser)
    assert f"{missing} does not start for it" in chosen.reason
    assert "K3EVAL_ENGINE_USER" in chosen.next_step
    with pytest.raises(UsageError, match="cannot run the engine"):
        choose_engine_user("nobody", engine_python=missing, readable=[])


def test_another_user_cannot_touch_what_is_the_referees(tmp_path: Path) -> None:
    """As root the engine is truly another user; without root the reason is recorded instead."""
    secret = tmp_path / "cells.jsonl"
    secret.write_text("{}\n")
    secret.chmod(0o600)
    chosen = choose_engine_user(None, engine_python=SYSTEM_PYTHON, readable=[Path("/etc/passwd")])
    if os.geteuid() != 0:
        assert isinstance(chosen, SameUser)
        return
    assert isinstance(chosen, OtherUser)
    log = tmp_path / "engine.log"
    with EngineHomes(chosen) as homes, homes.home("baseline"):
        pass
    with EngineHomes(chosen) as homes:
        with homes.home("baseline"):
            pass
        with homes.home("candidate") as home:
            other = str(homes.folder / "baseline")
            command = EngineCommand(
                argv=(str(SYSTEM_PYTHON), "-I", "-c", SPY, str(secret), other),
                environment=home.environment,
                port=0,
            )
            process = start_engine(command, log=log, clean=str, folder=home.folder, user=chosen)
            while process.ended() is None:
                pass
        assert (homes.folder / "candidate").stat().st_uid == 0
        assert not (homes.folder / "baseline" / "mine").exists()
        folder = homes.folder
    assert not folder.exists()
    assert secret.read_text() == "{}\n"
    assert log.read_text().splitlines() == [
        "write PermissionError",
        "read PermissionError",
        "other PermissionError",
        "root PermissionError",
        "kill PermissionError",
        "own done",
        f"home True {chosen.uid} []",
        "privileges ['1']",
    ]


@pytest.mark.parametrize("keeps_bytecode", [True, False])
def test_byte_code_stays_in_the_home_of_an_arm_where_it_has_no_other_place(
    keeps_bytecode: bool,
) -> None:
    user = OtherUser(os.geteuid(), os.getegid(), "somebody")
    with EngineHomes(user, keeps_bytecode=keeps_bytecode) as homes:
        prefixes = []
        for arm in ("baseline", "candidate"):
            with homes.home(arm) as home:
                prefixes.append(home.environment.get("PYTHONPYCACHEPREFIX"))
                assert home.folder.parent == homes.folder
        expected = [str(homes.folder / arm / "bytecode") for arm in ("baseline", "candidate")]
        assert prefixes == (expected if keeps_bytecode else [None, None])


def test_the_supervisors_own_environment_is_not_the_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that an arm sets for its loader must not act on a supervisor that may be root."""
    monkeypatch.setenv("K3EVAL_SECRET", "hidden")
    show = (
        "import os; print(sorted(os.environ)); "
        "print('LD_DEBUG' in open(f'/proc/{os.getppid()}/environ').read())"
    )
    command = EngineCommand(
        argv=(sys.executable, "-c", show), environment={"LD_DEBUG": "none", "A": "1"}, port=0
    )
    log = tmp_path / "engine.log"
    process = start_engine(command, log=log, clean=str, folder=tmp_path)
    while process.ended() is None:
        pass
    names, reached = log.read_text().splitlines()[-2:]
    # Python itself adds LC_CTYPE where the environment names no language.
    assert names in {"['A', 'LC_CTYPE', 'LD_DEBUG']", "['A', 'LD_DEBUG']"}
    assert reached == "False"

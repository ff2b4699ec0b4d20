"""Started runs are remembered outside of run folders, and nothing else is."""

import json
from pathlib import Path

import pytest

from k3bundle.run import RunIdentity
from k3bundle.subject import ChangeUnderTest
from k3runner.run_ledger import RunLedger
from k3runner.settings import resolve_state

CHANGE = ChangeUnderTest(repository="example/engine", pull_request=7, commit_sha="a" * 40)
PLAN = "5" * 64


def run_of(number: int, plan: str = PLAN) -> RunIdentity:
    return RunIdentity(
        run_id=f"{number:032x}",
        nonce="7" * 64,
        nonce_source="local",
        plan_sha256=plan,
        created_at_utc="2026-01-02T03:00:00.000000Z",
    )


def test_a_run_in_a_new_folder_knows_the_runs_before_it(tmp_path: Path) -> None:
    ledger = RunLedger(tmp_path / "state")
    first = ledger.start(run_of(1), CHANGE)
    assert (first.runs, first.other_plans, first.why_unknown) == ((), 0, None)
    ledger.sealed(run_of(1).run_id, "FAIL")
    second = RunLedger(tmp_path / "state").start(run_of(2), CHANGE)
    assert [(run.run_id, run.verdict) for run in second.runs] == [(f"{1:032x}", "FAIL")]
    third = ledger.start(run_of(3), CHANGE)
    assert [run.verdict for run in third.runs] == ["FAIL", None]


def test_other_plans_of_the_commit_are_counted_and_other_commits_are_not(tmp_path: Path) -> None:
    ledger = RunLedger(tmp_path)
    ledger.start(run_of(1, plan="6" * 64), CHANGE)
    ledger.start(run_of(2), CHANGE.model_copy(update={"commit_sha": "b" * 40}))
    found = ledger.start(run_of(3), CHANGE)
    assert (found.runs, found.other_plans) == ((), 1)


def test_the_file_is_the_users_alone_and_holds_no_path(tmp_path: Path) -> None:
    RunLedger(tmp_path).start(run_of(1), CHANGE)
    file = tmp_path / "runs.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(file.read_text())) == {
        "event",
        "run_id",
        "plan_sha256",
        "repository",
        "commit_sha",
        "started_at_utc",
    }


def test_a_torn_or_foreign_line_loses_no_other(tmp_path: Path) -> None:
    ledger = RunLedger(tmp_path)
    ledger.start(run_of(1), CHANGE)
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'[1]\n{"event": "started", "run_id": "mine"}\n{"event": "sta')
    ledger.start(run_of(2), CHANGE)
    found = ledger.start(run_of(3), CHANGE)
    assert [run.run_id for run in found.runs] == [f"{1:032x}", f"{2:032x}"]


def test_many_runs_are_listed_from_the_newest_and_all_are_counted(tmp_path: Path) -> None:
    entry = {
        "event": "started",
        "plan_sha256": PLAN,
        "repository": CHANGE.repository,
        "commit_sha": CHANGE.commit_sha,
        "started_at_utc": "2026-01-02T03:00:00Z",
    }
    lines = [json.dumps({**entry, "run_id": f"{number:032x}"}) for number in range(1, 1003)]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    found = RunLedger(tmp_path).start(run_of(5000), CHANGE)
    assert (len(found.runs), found.left_out) == (1000, 2)
    assert found.runs[-1].run_id == f"{1002:032x}"


def test_without_a_place_the_run_goes_on_and_says_why(tmp_path: Path) -> None:
    nowhere = RunLedger(None).start(run_of(1), CHANGE)
    assert "HOME, XDG_STATE_HOME and K3EVAL_STATE are not set" in (nowhere.why_unknown or "")
    (tmp_path / "file").write_text("")
    blocked = RunLedger(tmp_path / "file").start(run_of(1), CHANGE)
    assert "cannot be kept: File exists" in (blocked.why_unknown or "")
    RunLedger(tmp_path / "file").sealed(run_of(1).run_id, "PASS")


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({}, None),
        ({"HOME": "/u"}, Path("/u/.local/state/k3-eval")),
        ({"HOME": "/u", "XDG_STATE_HOME": "/s"}, Path("/s/k3-eval")),
        ({"HOME": "/u", "K3EVAL_STATE": "/k"}, Path("/k")),
    ],
)
def test_the_place_follows_the_environment(environ: dict[str, str], folder: Path | None) -> None:
    assert resolve_state(environ) == folder

"""No time where cases did not pass, and none on another commit's verdicts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from k3decode import bench
from k3decode.bench import passed_cases, time_op
from k3decode.check import CaseReport
from k3decode.op import Part
from k3decode.registry import op_named

COMMIT = "abc"


def _lines(path: Path, *outcomes: str, commit: str = COMMIT) -> Path:
    reports = [
        CaseReport("kda", f"m{place}", "smoke", outcome, None, ())  # type: ignore[arg-type]
        for place, outcome in enumerate(outcomes)
    ]
    path.write_text("".join(report.record({"commit": commit}) + "\n" for report in reports))
    return path


def test_only_passed_cases_count(tmp_path: Path) -> None:
    found = passed_cases(_lines(tmp_path / "check.jsonl", "passed", "failed", "errored"), COMMIT)
    assert found == {("kda", "m0")}


def test_verdicts_of_another_commit_are_refused(tmp_path: Path) -> None:
    path = _lines(tmp_path / "check.jsonl", "passed", commit="older")
    with pytest.raises(ValueError, match="expected cases that were checked at abc, found 'older'"):
        passed_cases(path, COMMIT)


def test_lines_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text(json.dumps({"schema": "k3decode.bench/1", "commit": COMMIT}) + "\n")
    with pytest.raises(ValueError, match="expected lines of the check, found schema"):
        passed_cases(path, COMMIT)


def _older(path: Path) -> None:
    _lines(path, "passed", commit="older")


def _cut(path: Path) -> None:
    path.write_text(_lines(path, "passed").read_text()[:60])


def _without_op(path: Path) -> None:
    path.write_text(json.dumps({"schema": "k3decode.check/2", "commit": COMMIT}))


def _missing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_older, "check again with --commit"),
        (_cut, "line 1: expected a JSON object, found"),
        (_without_op, "line 1: expected a field 'op' (str), found 'commit', 'schema': write it"),
        (_missing, "found No such file or directory: write it with k3decode.check --json"),
    ],
)
def test_wrong_verdicts_are_one_sentence(
    make: Callable[[Path], None],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "check.jsonl"
    make(path)
    with pytest.raises(SystemExit) as end:
        bench.main(["kda", "--commit", COMMIT, "--checked", str(path)])
    assert end.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_an_op_with_a_red_case_is_not_timed(capsys: pytest.CaptureFixture[str]) -> None:
    def timed(*_arguments: object) -> None:
        raise AssertionError("timed on red")

    assert time_op(op_named("situ"), None, {("situ", "m3")}, timed) is False
    assert "situ: " in capsys.readouterr().err


def test_an_op_whose_cases_passed_is_timed_case_by_case() -> None:
    op = op_named("situ")
    times: list[str] = []
    passed = {(op.name, case.name) for case in op.cases if case.group != "rows"}
    assert time_op(op, ["shared_tp8_m9"], passed, lambda _, case: times.append(case.name))
    assert times == ["shared_tp8_m9"]
    times.clear()
    every = [case.name for case in op.cases if case.group == "production"]
    for number in (1, 2):
        part = Part(number, 2)
        assert time_op(op, None, passed, lambda _, case: times.append(case.name), part=part)
    assert times == every[::2] + every[1::2]

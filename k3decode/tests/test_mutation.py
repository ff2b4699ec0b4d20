"""Kept results count only for the device code they were measured on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k3decode import mutation
from k3decode.mutants import MUTANTS

MUTANT = MUTANTS[0]


def _result(outcome: str = "caught", digest: str | None = None) -> dict[str, object]:
    return {
        "schema": mutation.SCHEMA,
        "op": MUTANT.op,
        "mutant": MUTANT.name,
        "outcome": outcome,
        "kernel_sha256": digest or mutation._digest(MUTANT),
        "measured_at_utc": "2026-11-30T10:00:00Z",
        "commit": "abcdef0123456789",
    }


def _standing(result: dict[str, object] | None) -> str:
    return mutation.standing(MUTANT, {} if result is None else {(MUTANT.op, MUTANT.name): result})


def test_a_result_of_other_device_code_is_outdated() -> None:
    assert _standing(_result()) == "caught"
    assert _standing(_result(digest="0" * 64)) == "outdated"
    assert _standing(None) == "never run"
    assert _standing(_result("survived")) == "survived"


@pytest.mark.parametrize(("outcome", "status"), [("caught", 0), ("survived", 1)])
def test_without_a_gpu_kept_results_decide(
    outcome: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "mutants.jsonl"
    path.write_text(json.dumps(_result(outcome)) + "\n")
    monkeypatch.setattr(mutation, "MUTANTS", (MUTANT,))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert mutation.main(["--keep", str(path)]) == status
    assert "2026-11-30T10:00:00Z abcdef01" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "expected a file of JSON lines, found No such file or directory"),
        ("garbage\n", "line 1: expected a JSON object, found 'garbage'"),
        (json.dumps({"schema": "k3decode.mutant/2"}), "line 1: expected a field 'op' (str)"),
        (json.dumps(_result()) + '\n{"schema": "k3dec', "line 2: expected a JSON object"),
    ],
)
def test_kept_results_that_cannot_be_read_are_one_sentence(
    text: str | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "mutants.jsonl"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        mutation.main(["--keep", str(path)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"error: {path}: {words}" in error
    assert "name a file that k3decode.mutants --keep FILE wrote" in error


def test_on_a_gpu_the_file_is_read_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _StartedError(Exception):
        pass

    def start(*_: object) -> None:
        raise _StartedError

    path = tmp_path / "mutants.jsonl"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(mutation, "circumstances", start)
    with pytest.raises(_StartedError):
        mutation.main(["--keep", str(path)])
    path.write_text("garbage")
    with pytest.raises(SystemExit):
        mutation.main(["--keep", str(path)])


def test_columns_are_as_wide_as_their_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutation, "_digest", lambda _: "other")
    chosen = (MUTANT, replace(MUTANT, op="a_name_of_an_op_that_is_long", name="n" * 60))
    results = {(one.op, one.name): {**_result(), "kernel_sha256": ""} for one in chosen}
    assert mutation._show(chosen, results) == 1
    short, long = capsys.readouterr().out.splitlines()
    assert long.split() == ["outdated", chosen[1].op, "n" * 60, *short.split()[3:]]
    assert short.index("2026-") == long.index("2026-")
    assert short.index(MUTANT.name) == long.index("nnn")


def test_results_of_mutants_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    gone = {**_result(), "mutant": "gone"}
    path.write_text(json.dumps(gone) + "\n")
    mutation._keep(path, [_result()])
    assert list(mutation.kept_results(path, may_lack=False)) == [(MUTANT.op, MUTANT.name)]


def test_a_mutant_that_could_not_be_judged_is_not_caught() -> None:
    case = {"case": "m3", "sentences": ["RuntimeError: no"], "outcome": "errored"}
    assert mutation._judged(MUTANT, json.dumps(case))["outcome"] == "errored"
    assert mutation._judged(MUTANT, "")["outcome"] == "errored"
    assert (
        mutation._judged(MUTANT, json.dumps({**case, "outcome": "failed"}))["outcome"] == "caught"
    )
    passed = {"case": "m3", "sentences": [], "outcome": "passed"}
    assert mutation._judged(MUTANT, json.dumps(passed))["outcome"] == "survived"

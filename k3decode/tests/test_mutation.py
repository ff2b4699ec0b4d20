"""Kept results count only for the device code they were measured on."""

import json
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


def test_results_of_mutants_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    gone = {**_result(), "mutant": "gone"}
    path.write_text(json.dumps(gone) + "\n")
    mutation._keep(path, [_result()])
    assert list(mutation.kept_results(path)) == [(MUTANT.op, MUTANT.name)]


def test_a_mutant_that_could_not_be_judged_is_not_caught() -> None:
    case = {"case": "m3", "sentences": ["RuntimeError: no"], "outcome": "errored"}
    assert mutation._judged(MUTANT, json.dumps(case))["outcome"] == "errored"
    assert mutation._judged(MUTANT, "")["outcome"] == "errored"
    assert (
        mutation._judged(MUTANT, json.dumps({**case, "outcome": "failed"}))["outcome"] == "caught"
    )
    passed = {"case": "m3", "sentences": [], "outcome": "passed"}
    assert mutation._judged(MUTANT, json.dumps(passed))["outcome"] == "survived"

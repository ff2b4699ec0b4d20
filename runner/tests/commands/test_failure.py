"""Errors become one sentence and the right exit code; an unknown one leaves a trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3runner.commands import keygen
from k3runner.commands.failure import failure_code
from k3runner.errors import (
    EngineError,
    MachineError,
    RefusedError,
    RegistryError,
    RunnerError,
    UsageError,
)

FINDING = Finding("file-digest", "plan.json", "Expected abc, found def.", "Take it again.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("Wrong.", "Right it."), 2),
        (MachineError("Wrong.", "Right it."), 5),
        (EngineError("Wrong.", "Right it."), 6),
        (RegistryError("Wrong.", "Right it."), 7),
        (RefusedError("Wrong.", "Right it."), 4),
        (RunnerError("Wrong.", "Right it."), 70),
    ],
)
def test_failure_code_for_runner_errors_says_problem_then_next_step(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure_code(error) == code
    captured = capsys.readouterr()
    assert captured.err == "k3-eval: Wrong. Right it.\n"
    assert captured.out == ""


@pytest.mark.parametrize(
    "error", [BundleError((FINDING,)), RefusedError("Refused.", "Mend it.", (FINDING,))]
)
def test_failure_code_with_findings_lists_them(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure_code(error) == 4
    shown = capsys.readouterr().err
    assert "[file-digest] plan.json" in shown
    assert "Expected abc, found def. Take it again." in shown


def test_unknown_exception_leaves_a_trace_in_the_runs_folder(
    k3_eval: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("K3EVAL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("k3runner.settings.resolve_key", lambda *_: 1 / 0)

    outcome = k3_eval("keygen")

    assert outcome.code == 70
    assert outcome.stderr.count("\n") == 1
    assert "ZeroDivisionError" in outcome.stderr
    (trace,) = (tmp_path / "runs").iterdir()
    assert str(trace) in outcome.stderr
    assert keygen.__name__.replace(".", "/") in trace.read_text("utf-8")


def test_unknown_exception_without_runs_folder_uses_the_temporary_folder(
    k3_eval: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("K3EVAL_RUNS", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("k3runner.settings.resolve_key", lambda *_: 1 / 0)

    outcome = k3_eval("keygen")

    (trace,) = tmp_path.glob("trace-*.txt")
    assert outcome.code == 70
    assert str(trace) in outcome.stderr

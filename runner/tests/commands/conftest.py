"""Runs the command line in this process, with its own working folder and environment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from k3bundle_testing.sealing import sealed_archive
from k3runner.cli import run_command_line


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def k3_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    monkeypatch.chdir(tmp_path)
    for name in ("ENGINE_PYTHON", "MODEL", "RUNS", "REGISTRY", "KEY", "ENGINE_PORT"):
        monkeypatch.delenv(f"K3EVAL_{name}", raising=False)

    def run(*arguments: str) -> Outcome:
        code = run_command_line(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "run.k3b"
    path.write_bytes(sealed_archive())
    return path

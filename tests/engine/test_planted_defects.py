"""The installed referee against a real engine in which a defect was planted: each is found.

Both run the whole smoke tier, so each costs four boots of the engine.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k3house.place import env_python, env_script
from k3runner.exit_code import ExitCode
from tests.repository import ROOT

pytestmark = pytest.mark.engine

SUBJECT = (ROOT / "runner/src/k3runner/subjects/k3-tiny.toml").read_text()
CANDIDATE_BACKEND = """'{"k3decode": {"decode_backend": "candidate"}}'"""
STOCK_BACKEND = """'{"k3decode": {"decode_backend": "stock"}}'"""
ABSORBED = "return torch.cat([absorbed, query[..., weights.nope :]], dim=-1)"


@dataclass(frozen=True)
class Evaluated:
    """What `k3-eval run` and `k3-eval report` said."""

    status: int
    verdict: Mapping[str, Any]

    def claim(self, name: str) -> Mapping[str, Any]:
        """One of the four claims."""
        return next(claim for claim in self.verdict["claims"] if claim["name"] == name)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    command = [str(env_python("engine")), "-m", "k3decode.tiny_checkpoint", str(folder)]
    subprocess.run([*command, "--seed", "0"], check=True)
    return folder


def _evaluate(subject: Path, model: Path, folder: Path) -> Evaluated:
    k3_eval = str(env_script("referee", "k3-eval"))
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    run = subprocess.run(
        [
            *(k3_eval, "run", "--tier", "smoke", "--subject", str(subject), "--plain"),
            *("--repository", "example/engine", "--pull-request", "7", "--commit", "a" * 40),
            *("--engine-python", str(env_python("engine")), "--model", str(model)),
            *("--runs", str(folder / "runs"), "--key", str(folder / "key")),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )
    result = json.loads(run.stdout.splitlines()[-1])
    verdict = subprocess.run(
        [k3_eval, "report", result["bundle_path"], "--json", "-"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
        check=True,
    )
    report = json.loads(verdict.stdout)
    assert report["status"] == result["verdict"]
    return Evaluated(run.returncode, report)


def test_candidate_that_runs_stock_is_found_out(tmp_path: Path, model: Path) -> None:
    assert SUBJECT.count(CANDIDATE_BACKEND) == 1
    subject = tmp_path / "stock-in-candidate.toml"
    subject.write_text(SUBJECT.replace(CANDIDATE_BACKEND, STOCK_BACKEND))

    found = _evaluate(subject, model, tmp_path)

    assert found.status == ExitCode.NOT_CONCLUSIVE
    assert found.verdict["status"] == "INVALID"
    for cell in found.verdict["cells"]:
        assert cell["status"] == "INVALID"
        assert cell["cause"] == "measures_stock"
        assert cell["reason"].startswith("measures stock")


def test_candidate_with_a_numeric_fault_fails_on_correctness(tmp_path: Path, model: Path) -> None:
    package = tmp_path / "overlay" / "k3decode"
    shutil.copytree(
        ROOT / "k3decode/src/k3decode", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    faulty = package / "ops/mla/reference.py"
    text = faulty.read_text()
    assert text.count(ABSORBED) == 1
    faulty.write_text(text.replace(ABSORBED, ABSORBED.replace("absorbed,", "1.02 * absorbed,")))
    subject = tmp_path / "faulty.toml"
    head, candidate = SUBJECT.rsplit("[[arms]]", 1)
    subject.write_text(f'{head}[[arms]]\noverlay = "overlay"{candidate}')

    found = _evaluate(subject, model, tmp_path)

    assert found.status == ExitCode.FAIL
    assert found.verdict["status"] == "FAIL"
    assert found.claim("correct")["status"] == "FAIL"
    assert found.claim("bounded")["status"] == "PASS"

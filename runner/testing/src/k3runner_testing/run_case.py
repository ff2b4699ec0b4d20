"""A whole run of the smoke tier against fake engines, for the tests of `run` and `resume`."""

import sys
from pathlib import Path
from typing import Any

from k3bundle.archive import read_archive
from k3bundle.bundle import RunRecords, parse_records
from k3bundle.subject import ChangeUnderTest
from k3bundle.verdict import CellResult, Claim, Verdict
from k3runner.settings import RunConfig, TimeLimits, resolve
from k3runner_testing.fake_subject import write_fake_model, write_fake_subject

__all__ = ["CHANGE", "bundle_records", "cell_result", "claim", "fake_config"]

CHANGE = ChangeUnderTest(repository="example/engine", pull_request=7, commit_sha="a" * 40)
"""A change that does not exist."""


def fake_config(
    folder: Path,
    *,
    baseline: dict[str, Any] | None = None,
    candidate: dict[str, Any] | None = None,
    candidate_backend: str = "candidate",
    request_idle_s: float = 10.0,
) -> RunConfig:
    """Configuration of a run whose engines are fakes.

    Args:
        folder: Empty folder; subject, model, key and runs go there.
        baseline: Fields of `Behaviour` for the baseline's engine.
        candidate: The same for the candidate's.
        candidate_backend: Backend that the candidate is started with.
        request_idle_s: Limit without a token.
    """
    subject = write_fake_subject(
        folder, baseline=baseline, candidate=candidate, candidate_backend=candidate_backend
    )
    return resolve(
        environ={},
        subject=str(subject),
        engine_python=Path(sys.executable),
        model=write_fake_model(folder / "model"),
        runs=folder / "runs",
        key=folder / "key",
        limits=TimeLimits(ready_s=60.0, request_idle_s=request_idle_s, stop_s=2.0),
    )


def bundle_records(bundle: Path) -> RunRecords:
    """Records of a sealed bundle."""
    return parse_records(read_archive(bundle))


def claim(verdict: Verdict, name: str) -> Claim:
    """One claim of a verdict."""
    return next(one for one in verdict.claims if one.name == name)


def cell_result(verdict: Verdict, cell_id: str) -> CellResult:
    """One cell of a verdict."""
    return next(one for one in verdict.cells if one.cell_id == cell_id)

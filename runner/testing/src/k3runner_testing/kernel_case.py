"""A run of the fake kernel package, for tests."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from k3runner.events import Event
from k3runner.run import RunResult, run
from k3runner.settings import RunConfig, resolve
from k3runner_testing.fake_kernels import write_fake_package
from k3runner_testing.run_case import CHANGE

__all__ = ["config", "result_of"]

_LIMIT_S: Final = 60


def config(
    folder: Path, defects: dict[str, str] | None = None, *, limit_s: int = _LIMIT_S
) -> RunConfig:
    """Settings of a run of the package, with these defects of its tasks."""
    target = folder / "target.txt"
    subject = write_fake_package(folder, defects=defects, target=target)
    found = resolve(
        environ={},
        tier="kernels",
        subject=str(subject),
        engine_python=Path(sys.executable),
        runs=folder / "runs",
        key=folder / "key",
    )
    if limit_s == _LIMIT_S:
        return found
    # The other commands must not be ended where the machine is busy.
    tasks = tuple(
        replace(task, limit_s=limit_s) if task.task in (defects or {}) else task
        for task in found.tier.kernels
    )
    return replace(found, tier=replace(found.tier, kernels=tasks))


def result_of(found: RunConfig, events: list[Event] | None = None) -> RunResult:
    """Runs it to its end; events go into the list."""
    return run(found, CHANGE, ([] if events is None else events).append)

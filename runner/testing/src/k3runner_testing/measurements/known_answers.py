"""Runs whose answer is known beforehand: `python -m k3runner_testing.measurements.known_answers`.

Each goes all the way, with a real vLLM on this machine's CPU: plan, boots in A-B-B-A order,
verdict, sealed bundle, and `k3-eval verify` of the bundle in a process of its own.

- same: both arms are started the same way. Never FAIL, and never PASS.
- shipped: the candidate is the small model's own decode path. It is the control of the next one.
- slowed: the same, and a plugin makes every step of the candidate take twice as long. FAIL.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

from k3bundle.archive import read_archive
from k3bundle.bundle import parse_records
from k3bundle.plan import GreedyCell, ServingCell
from k3bundle.subject import ChangeUnderTest
from k3bundle.verdict import CellSkipped, ServingEvidence, Verdict
from k3runner.boot_order import blocks
from k3runner.display.sentences import sentence
from k3runner.events import BootWaiting, CellProgress, Event
from k3runner.run import run
from k3runner.settings import RunConfig, resolve
from k3runner.tiers import Tier, load_tier
from k3runner_testing.measurements.conditions import conditions
from k3runner_testing.measurements.slow_wheel import write_slow_wheel
from k3runner_testing.measurements.vllm_server import write_tiny_model

__all__ = ["CASES", "Case", "evaluate", "main", "small_config", "small_tier", "write_subjects"]

_K3_EVAL: Final = (sys.executable, "-c", "from k3runner.cli import main; main()")
_GATES: Final[Mapping[str, object]] = {
    "require_telemetry": False,
    "maximum_client_lag_ms": 1000.0,
    "maximum_concurrency_shortfall": 0.25,
}
"""What a machine without accelerators cannot keep of the tier's gates: the load client shares its
cores with the engine. The verdict says that the plan asks for less than its tier."""
_CHANGE: Final = ChangeUnderTest(repository="example/engine", pull_request=7, commit_sha="a" * 40)
_ARM: Final = "[[arms]]"


@dataclass(frozen=True)
class Case:
    """One run and what may come of it."""

    name: str
    """Its name."""
    may_be: frozenset[str]
    """Verdicts that are right."""
    faster_may_be: frozenset[str]
    """Right statuses of the claim that the candidate is faster."""
    others: str
    """Status of the three other claims."""
    blocks: int = 1
    """A-B-B-A blocks of boots on a real engine."""


_ANY: Final = frozenset({"PASS", "FAIL", "INCONCLUSIVE", "INVALID"})
CASES: Final = (
    Case("same", frozenset({"INCOMPLETE", "INVALID"}), frozenset({"NOT_CLAIMED"}), "NOT_CLAIMED"),
    Case("shipped", _ANY, _ANY, "PASS"),
    # Two pairs have hardly any power where other work runs beside them.
    Case("slowed", frozenset({"FAIL"}), frozenset({"FAIL"}), "PASS", blocks=2),
)
"""In the order in which they run."""


def small_tier(block_count: int = 1) -> Tier:
    """The tier `quick` with its gates and features, and cells that a small model bears.

    Args:
        block_count: A-B-B-A blocks of boots.
    """
    quick = load_tier("quick")
    cells = (
        one.model_copy(update={"prompt_tokens": one.prompt_tokens[:6], "output_tokens": 12})
        if isinstance(one, GreedyCell)
        else one.model_copy(update={"request_count": 1, "output_tokens": 64})
        for one in quick.cells
    )
    # One round of warm-up: whether rounds agree on shared cores is not what is asked here.
    timed = (
        ServingCell(
            cell_id=f"serving-isl32-osl32-c{streams}",
            endpoint="completions",
            concurrency=streams,
            prompt_tokens=32,
            output_tokens=32,
            warmup_requests=2 * streams,
            request_count=max(8, 3 * streams),
        )
        for streams in (1, 4)
    )
    order = blocks(block_count)
    return replace(quick, boot_order=order, cells=(*cells, *timed), sweeps=())


def small_config(config: RunConfig, block_count: int = 1) -> RunConfig:
    """The settings with the small tier, and gates that a machine without accelerators keeps."""
    subject = replace(config.subject, gates=_GATES)
    return replace(config, tier=small_tier(block_count), subject=subject)


def evaluate(config: RunConfig, case: Case, emit: Callable[[Event], None]) -> dict[str, Any]:
    """Runs a case to its end, and verifies its bundle in a process of its own.

    Args:
        config: Settings of the run.
        case: What may come of it.
        emit: Gets the events of the run.

    Returns:
        What came of it, and whether it is right.
    """
    began = time.monotonic()
    result = run(config, _CHANGE, emit)
    wall_s = time.monotonic() - began
    verified = subprocess.run(
        [*_K3_EVAL, "verify", "--json", str(result.bundle_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    checked = json.loads(verified.stdout)
    verdict = result.verdict
    records = parse_records(read_archive(result.bundle_path))
    claims = {claim.name: claim.status for claim in verdict.claims}
    return {
        "case": case.name,
        "wall_s": round(wall_s, 1),
        "plan_sha256": records.run.plan_sha256,
        "boots": [boot.arm for boot in records.plan.boots],
        "bundle_sha256": result.bundle_sha256,
        "verify": {"status": verified.returncode, **checked},
        "verdict": verdict.status,
        "sentence": verdict.sentence,
        "claims": {claim.name: f"{claim.status}: {claim.sentence}" for claim in verdict.claims},
        "cells": {cell.cell_id: f"{cell.status}: {cell.reason}" for cell in verdict.cells},
        "intervals": _intervals(verdict),
        "may_be": sorted(case.may_be),
        "holds": checked["sound"]
        and checked["verdict"] == verdict.status
        and verdict.status in case.may_be
        and claims.pop("faster") in case.faster_may_be
        and set(claims.values()) == {case.others},
    }


def _intervals(verdict: Verdict) -> dict[str, list[dict[str, Any]]]:
    """Cell -> candidate / baseline of each metric, with bounds."""
    return {
        cell.cell_id: [interval.model_dump(mode="json") for interval in cell.evidence.intervals]
        for cell in verdict.cells
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, ServingEvidence)
    }


def write_subjects(folder: Path) -> Mapping[str, Path]:
    """Writes the subject of every case, and the wheel that one of them needs.

    Args:
        folder: Where to; engines may run as another user, who must be able to read it.

    Returns:
        Name of a case -> subject file.
    """
    shipped = (resources.files("k3runner.subjects") / "k3-tiny.toml").read_text("utf-8")
    head, baseline, candidate = shipped.split(_ARM)
    wheel = write_slow_wheel(folder)
    same = candidate.replace('name = "candidate"', 'name = "baseline"')
    texts = {
        "same": _ARM.join([head, same + "\n", candidate]),
        "shipped": shipped,
        "slowed": _ARM.join([head, baseline, f'{candidate}wheel = "{wheel.name}"\n']),
    }
    paths = {name: folder / f"{name}.toml" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, "utf-8")
    return paths


def main(arguments: list[str]) -> int:
    """Runs every case and writes what came of them.

    Returns:
        0 when every answer is the known one, else 1.
    """
    parser = argparse.ArgumentParser(prog="known_answers")
    parser.add_argument("--engine-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="result as JSON")
    parser.add_argument("--only", choices=[case.name for case in CASES], action="append")
    options = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        folder.chmod(0o755)
        model = write_tiny_model(options.engine_python.absolute(), folder)
        subjects = write_subjects(folder)
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            config = resolve(
                environ={"K3EVAL_STATE": str(folder / "state")},
                tier="quick",
                subject=str(subjects[case.name]),
                engine_python=options.engine_python.absolute(),
                model=model,
                runs=folder / "runs",
                key=folder / "key",
            )
            before = conditions()
            small = small_config(config, case.blocks)
            found.append({"conditions": before, **evaluate(small, case, _tell)})
            print(json.dumps(found[-1], indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 0 if all(one["holds"] for one in found) else 1


def _tell(event: Event) -> None:
    """An event in words on standard error; what comes many times is left out."""
    if not isinstance(event, BootWaiting | CellProgress):
        print(sentence(event), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

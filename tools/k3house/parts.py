"""Runs parts of the tests one after the other and says how long each took."""

import subprocess
import sys
import time
from dataclasses import dataclass

from k3house.place import ROOT

__all__ = ["run_parts"]


@dataclass(frozen=True)
class _Outcome:
    part: str
    status: int
    seconds: float


def run_parts(parts: list[str], variables: list[str]) -> int:
    """Run make targets in order; all of them, so that one run shows everything that is wrong.

    Args:
        parts: Names of make targets.
        variables: `NAME=value` words handed on to make.

    Returns:
        0 when all passed, 1 otherwise.
    """
    outcomes = []
    for part in parts:
        sys.stderr.write(f"== {part}\n")
        sys.stderr.flush()
        started = time.monotonic()
        done = subprocess.run(
            ["make", "--no-print-directory", part, *variables], cwd=ROOT, check=False
        )
        outcomes.append(_Outcome(part, done.returncode, time.monotonic() - started))
    for outcome in outcomes:
        word = "passed" if outcome.status == 0 else f"FAILED (status {outcome.status})"
        sys.stdout.write(f"{outcome.part:<14} {outcome.seconds:7.1f} s  {word}\n")
    failed = [outcome.part for outcome in outcomes if outcome.status]
    total = sum(outcome.seconds for outcome in outcomes)
    sys.stdout.write(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} parts passed in {total / 60:.1f} min"
        + (f"; failed: {', '.join(failed)}\n" if failed else "\n")
    )
    return 1 if failed else 0

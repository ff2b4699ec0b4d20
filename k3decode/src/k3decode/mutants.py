"""`python -m k3decode.mutants [OP ...]`: break device code on purpose; the cases must notice.

Each mutant is one replacement in a copy of the package, checked in a process of its own on the GPU.
A mutant whose cases all pass survived: a case is missing. One line of JSON per mutant; the exit
code is 1 when one survived or could not be judged. References are never changed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTANTS", "Mutant", "main", "mutate"]

SCHEMA = "k3decode.mutant/1"
_PARALLEL = 6
# The references run on the CPU: as many threads per process as cores would fight for them.
_THREADS = {"OMP_NUM_THREADS": "2"}


@dataclass(frozen=True)
class Mutant:
    """One defect in the device code of an op."""

    op: str
    name: str
    found: str
    """Text that occurs once in the op's kernel.py."""
    replaced: str


MUTANTS = (
    Mutant(
        "attn_res",
        "prefix_replaced_instead_of_added",
        "rPrefix.store(total.to(BFloat16))",
        "rPrefix.store(rPending.load())",
    ),
    Mutant(
        "attn_res",
        "scores_not_normalised",
        "scores.append(dot * cute",
        "scores.append(dot + 0 * cute",
    ),
    Mutant(
        "attn_res",
        "neighbouring_block_written",
        "mBlocks[row, config.write_block, None]",
        "mBlocks[row, config.write_block ^ 1, None]",
    ),
    Mutant(
        "embedding",
        "row_off_by_one",
        "mTokens[row] - first_token",
        "mTokens[row] - first_token + 1",
    ),
    Mutant("embedding", "zeros_forgotten", "rRow.fill(0.0)", "rRow.fill(1.0)"),
    Mutant(
        "kda",
        "taps_in_the_wrong_order",
        "mixed + weight[j] * window[j]",
        "mixed + weight[c.conv_taps - 1 - j] * window[j]",
    ),
    Mutant(
        "kda",
        "decay_forgotten",
        "state = rState[i].load() * decay",
        "state = rState[i].load()",
    ),
    Mutant("kda", "gate_bound_ignored", "c.gate_lower_bound * gate", "-gate"),
    Mutant("kda", "padding_slot_served", "if slot > 0:", "if slot >= 0:"),
    Mutant("router", "not_renormalised", "score / (total + _SUM_FLOOR)", "score"),
    Mutant(
        "router",
        "ties_to_the_higher_id",
        'warp_redux_sync(candidate, "min")',
        "warp_redux_sync(Int32(-1) if candidate == _NO_EXPERT else candidate, 'max')",
    ),
    Mutant(
        "router",
        "bias_in_the_weights",
        "score = _sigmoid(mLogits[row, mine])",
        "score = _sigmoid(mLogits[row, mine]) + mBias[mine]",
    ),
)
"""Two or more per op, each a mistake somebody could make."""


def mutate(mutant: Mutant, source: str) -> str:
    """Apply the replacement.

    Raises:
        ValueError: the text is not in the source exactly once.
    """
    count = source.count(mutant.found)
    if count != 1:
        raise ValueError(
            f"{mutant.op}/{mutant.name}: expected '{mutant.found}' once in kernel.py, found it "
            f"{count} times: follow the kernel's change here"
        )
    return source.replace(mutant.found, mutant.replaced)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.mutants", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops whose mutants run; all of them by default")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not options.op or mutant.op in options.op]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        records = []
        for record in pool.map(_run, chosen):
            print(json.dumps(record), flush=True)
            records.append(record)
    return 0 if records and all(record["outcome"] == "caught" for record in records) else 1


def _run(mutant: Mutant) -> dict[str, object]:
    package = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        kernel = copy / "ops" / mutant.op / "kernel.py"
        kernel.write_text(mutate(mutant, kernel.read_text()))
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "k3decode.check", mutant.op, "--json"],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **_THREADS},
        )
    return _judged(mutant, done.stdout)


def _judged(mutant: Mutant, stdout: str) -> dict[str, object]:
    """A mutant is caught by a failed case; a case that could not be judged proves nothing."""
    reports = [json.loads(line) for line in stdout.splitlines()]
    failed = [report for report in reports if report["outcome"] == "failed"]
    errored = [report for report in reports if report["outcome"] == "errored"]
    outcome = "caught" if failed and not errored else "errored" if errored else "survived"
    if not reports:
        outcome = "errored"
    example = (errored or failed or [None])[0]
    return {
        "schema": SCHEMA,
        "op": mutant.op,
        "mutant": mutant.name,
        "outcome": outcome,
        "failed_cases": len(failed),
        "cases": len(reports),
        "example": None if example is None else f"{example['case']}: {example['sentences'][0]}",
    }


if __name__ == "__main__":
    sys.exit(main())

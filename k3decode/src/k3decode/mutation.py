"""Runs mutants: each in a copy of the package, checked in a process of its own on the GPU.

A mutant whose cases all pass survived: a case is missing. One line of JSON per mutant; the exit
code is 1 when one survived or could not be judged. With `--keep FILE` the results are kept there.
Without a GPU nothing runs: the kept results are shown, and the exit code is 1 unless every mutant
was caught in the device code as it is now; it is 2 when kept results cannot be read.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from k3decode.circumstances import circumstances, typed_command
from k3decode.json_lines import JsonLinesError, read_json_lines
from k3decode.mutants import MUTANTS, Mutant, mutate

__all__ = ["kept_results", "main", "standing"]

SCHEMA = "k3decode.mutant/2"
_PARALLEL = 8
_KEPT_FIELDS = {"schema": str, "op": str, "mutant": str, "outcome": str}
_NEXT_STEP = "name a file that k3decode.mutants --keep FILE wrote on a GPU"
# The references run on the CPU: as many threads per process as cores would fight for them.
_THREADS = {"OMP_NUM_THREADS": "2"}
# Rows are the same code at other numbers of rows; a mutant that only they notice needs a corner.
_GROUPS = ("smoke", "corner", "production")
# A wait is missed by every case or by none; what late inputs cost is the delays.
_LATE_GROUPS = ("smoke", "corner")
_LATE_SEED = "7"
_PACKAGE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.mutants", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops whose mutants run; all of them by default")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep results there")
    parser.add_argument("--jobs", type=int, default=_PARALLEL, help="mutants at a time")
    parser.add_argument("--commit", default="", help="commit of the code that runs")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not options.op or mutant.op in options.op]
    has_gpu = torch.cuda.is_available()
    try:
        # On a GPU before anything runs: results of hours would be lost on a file of something else.
        kept = {} if options.keep is None else kept_results(options.keep, may_lack=has_gpu)
    except JsonLinesError as error:
        parser.error(str(error))
    if not has_gpu:
        if options.keep is None:
            parser.error("expected a CUDA device, found none: show kept results with --keep FILE")
        return _show(chosen, kept)
    facts = circumstances(options.commit, typed_command("k3decode.mutants", arguments))
    records = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for record in pool.map(_run, chosen):
            records.append({**record, **facts})
            print(json.dumps(records[-1]), flush=True)
    if options.keep is not None:
        _keep(options.keep, records)
    return 0 if records and all(record["outcome"] == "caught" for record in records) else 1


def standing(mutant: Mutant, results: Mapping[tuple[str, str], Mapping[str, object]]) -> str:
    """What kept results say about a mutant: caught, survived, errored, never run or outdated."""
    kept = results.get((mutant.op, mutant.name))
    if kept is None:
        return "never run"
    if kept.get("kernel_sha256") != _digest(mutant):
        return "outdated"
    return str(kept["outcome"])


def kept_results(path: Path, *, may_lack: bool) -> dict[tuple[str, str], dict[str, object]]:
    """Read kept results by op and name.

    Args:
        path: the file.
        may_lack: whether it may be missing, and then holds nothing.

    Raises:
        JsonLinesError: it is missing, or not what `--keep` writes.
    """
    if may_lack and not path.exists():
        return {}
    entries = read_json_lines(path, _KEPT_FIELDS, _NEXT_STEP)
    return {(entry["op"], entry["mutant"]): entry for entry in entries}


def _show(
    mutants: Sequence[Mutant], results: Mapping[tuple[str, str], Mapping[str, object]]
) -> int:
    op_width = max((len(mutant.op) for mutant in mutants), default=0)
    name_width = max((len(mutant.name) for mutant in mutants), default=0)
    found = []
    for mutant in mutants:
        kept = results.get((mutant.op, mutant.name), {})
        found.append(standing(mutant, results))
        commit = str(kept.get("commit", ""))[:8]
        where = f"{kept.get('gpu', '')} {kept.get('measured_at_utc', '')} {commit}".strip()
        words = f"{found[-1]:9}  {mutant.op:{op_width}}  {mutant.name:{name_width}}"
        print(f"{words}  {where}".rstrip())
    good = found.count("caught")
    print(f"no GPU here: {good} of {len(found)} were caught when last run", file=sys.stderr)
    return 0 if found and good == len(found) else 1


def _keep(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Replace what is known of these mutants; forget mutants that are no longer listed."""
    results: dict[tuple[str, str], Mapping[str, object]] = dict(kept_results(path, may_lack=True))
    results.update({(str(r["op"]), str(r["mutant"])): r for r in records})
    listed = [(mutant.op, mutant.name) for mutant in MUTANTS]
    lines = [json.dumps(results[place]) for place in listed if place in results]
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text("\n".join(lines) + "\n")
    partial.replace(path)


def _digest(mutant: Mutant) -> str:
    """Digest of the mutated text, which tells results of other device code apart."""
    source = (_PACKAGE / "ops" / mutant.op / mutant.file).read_text()
    return hashlib.sha256(mutate(mutant, source).encode()).hexdigest()


def _run(mutant: Mutant) -> dict[str, object]:
    digest = _digest(mutant)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / _PACKAGE.name
        shutil.copytree(_PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        kernel = copy / "ops" / mutant.op / mutant.file
        kernel.write_text(mutate(mutant, kernel.read_text()))
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        chosen = _LATE_GROUPS if mutant.late else _GROUPS
        groups = [word for group in chosen for word in ("--group", group)]
        command = [sys.executable, "-m", "k3decode.check", mutant.op, "--json", "--until-bad"]
        late = ["--jitter", _LATE_SEED] if mutant.late else []
        done = subprocess.run(
            [*command, *groups, *late],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **_THREADS},
        )
    return {**_judged(mutant, done.stdout), "kernel_sha256": digest}


def _judged(mutant: Mutant, stdout: str) -> dict[str, object]:
    """A mutant is caught by a failed case; a case that could not be judged proves nothing."""
    reports = [json.loads(line) for line in stdout.splitlines()]
    last = reports[-1] if reports else None
    outcomes = {"failed": "caught", "errored": "errored", "passed": "survived"}
    bad = last is not None and last["outcome"] != "passed"
    return {
        "schema": SCHEMA,
        "op": mutant.op,
        "mutant": mutant.name,
        "outcome": "errored" if last is None else outcomes[last["outcome"]],
        "cases_until_then": len(reports),
        "example": f"{last['case']}: {last['sentences'][0]}" if last and bad else None,
    }

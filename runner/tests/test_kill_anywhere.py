"""A run that is killed again and again, at another place each time, ends like one that was not."""

import signal
import subprocess
import sys
from pathlib import Path

from k3bundle.policy import Policy
from k3bundle.run import CellFinished
from k3bundle.verify_path import verify_path
from k3runner.run import ConfigOverrides, resume
from k3runner_testing.run_case import bundle_records

# Runs or resumes, and kills itself without a word at the first event that is called for; `seal`
# and `write` are the moments before the bundle is sealed, and before its file has its name.
RUNNER = """
import os, signal, sys
from pathlib import Path
import k3bundle.archive, k3runner.sealing
from k3runner.run import ConfigOverrides, resume, run
from k3runner_testing.run_case import CHANGE, fake_config
folder, at = Path(sys.argv[1]), sys.argv[2]
def die(*_arguments, **_names):
    os.kill(os.getpid(), signal.SIGKILL)
def tell(event):
    words = [type(event).__name__, getattr(event, "slot", ""), getattr(event, "cell_id", "")]
    if " ".join(map(str, words)).strip() == at:
        die()
if at == "seal":
    k3runner.sealing.seal = die
if at == "write":
    Path.replace = lambda path, target: die() if str(target).endswith(".k3b") else os.replace(
        path, target)
runs = folder / "runs"
if runs.is_dir():
    (one,) = runs.iterdir()
    resume(one, ConfigOverrides(), tell)
else:
    run(fake_config(folder), CHANGE, tell)
"""
PLACES = (
    "RunStarted",
    "CellStarted 0 greedy-c4",
    "CellEnded 1 sampling",
    "seal",
    "write",
)


def _killed_at(place: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(folder), place], stdout=subprocess.DEVNULL, check=False
    )
    assert done.returncode == -signal.SIGKILL, place


def test_a_run_that_is_killed_at_five_places_loses_at_most_the_cell_in_flight(
    tmp_path: Path,
) -> None:
    for place in PLACES:
        _killed_at(place, tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert not list(folder.glob("bundle/*.k3b"))
    result = resume(folder, ConfigOverrides(), print)

    assert result.verdict.status == "PASS", result.verdict.sentence
    assert verify_path(result.bundle_path, Policy()).findings == ()
    records = bundle_records(result.bundle_path)
    # The first start was killed before it was one, and the last one was not killed.
    assert len(records.attempts) == len(PLACES)
    finished = [
        (one.slot, one.cell_id, one.boot_id)
        for one in records.cells
        if isinstance(one, CellFinished)
    ]
    # Every cell once: what was finished before a kill was kept, and nothing ran twice.
    assert len({(slot, cell) for slot, cell, _ in finished}) == len(finished)
    assert len(finished) == 4 * len(records.plan.cells)
    boots = {slot: {boot for at, _, boot in finished if at == slot} for slot in range(4)}
    assert boots[0] == {"boot-0.0", "boot-0.1"}
    assert boots[1] == {"boot-1.1", "boot-1.2"}
    assert (boots[2], boots[3]) == ({"boot-2.2"}, {"boot-3.2"})
    assert not [path for path in Path("/proc").glob("[0-9]*/cwd") if _leads_into(path, folder)]


def _leads_into(link: Path, folder: Path) -> bool:
    """Whether a process, other than this one, works in the folder."""
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False

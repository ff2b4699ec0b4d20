import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from k3bundle import layout
from k3bundle.record import Record
from k3bundle.run import AttemptRecord, CellFinished
from k3bundle_testing.example_client import example_client
from k3runner.errors import MachineError
from k3runner.journal import JOURNAL_FILES, Journal, mend, read_lines
from k3runner.run_state import state_of

_WRITER = """
import sys
from pathlib import Path
from k3bundle.run import BootStopped, CellFinished
from k3bundle_testing.example_client import example_client
from k3runner.journal import Journal
with Journal(Path(sys.argv[1]), lambda _name, record: record) as journal:
    print("go", flush=True)
    for number in range(1_000_000):
        journal.boot(BootStopped(boot_id="boot-0.0", how="clean", detail="x" * 1500))
        journal.cell(CellFinished(boot_id="boot-0.0", slot=0, cell_id=f"c{number}",
            at_utc="2026-01-01T00:00:00Z", wall_ns=1, request_count=1, client=example_client(1)))
        print(number, flush=True)
"""


def as_it_is(_name: str, record: Record) -> Record:
    return record


def test_kill_at_random_moments_loses_nothing_that_was_journaled(tmp_path: Path) -> None:
    moments = random.Random(4)  # noqa: S311
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "go\n"
        time.sleep(moments.uniform(0.0, 0.15))
        writer.kill()
        told = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        assert mend(folder) in (0, 1)
        assert mend(folder) == 0
        state = state_of(read_lines(folder / layout.CELLS))
        acknowledged = {(0, f"c{one}") for one in told if one.isdigit()}
        # The last number may itself be cut; every whole one before it must be there.
        assert {pair for pair in acknowledged if pair != (0, f"c{told[-1]}")} <= state.finished


def test_mend_drops_a_torn_last_line_and_counts_it(tmp_path: Path) -> None:
    path = tmp_path / layout.CELLS
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":')
    assert mend(tmp_path) == 1
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'


def test_mend_drops_a_last_line_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / layout.BOOTS
    path.write_bytes(b'{"a":1}\n\0\0\0\0\n')
    assert mend(tmp_path) == 1
    assert path.read_bytes() == b'{"a":1}\n'


def test_mend_whole_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / layout.BOOTS
    path.write_bytes(b'{"a":1}\n')
    assert mend(tmp_path) == 0
    assert path.read_bytes() == b'{"a":1}\n'


def test_mend_damage_before_the_last_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / layout.CELLS).write_bytes(b'{"a":1}\n{"b"\n{"c":3}\n')
    with pytest.raises(MachineError, match=r"damaged in line 2"):
        mend(tmp_path)


def test_journal_appends_to_what_is_there(tmp_path: Path) -> None:
    for attempt in range(2):
        with Journal(tmp_path, as_it_is) as journal:
            journal.attempt(
                AttemptRecord(
                    attempt=attempt,
                    started_at_utc="2026-01-01T00:00:00Z",
                    resumed=attempt > 0,
                    torn_lines_dropped=0,
                )
            )
    assert len(read_lines(tmp_path / layout.ATTEMPTS)) == 2
    assert all((tmp_path / name).is_file() for name in JOURNAL_FILES)


def test_journal_on_a_full_disk_says_how_to_go_on(tmp_path: Path) -> None:
    # Every write to this device fails as on a full disk.
    record = CellFinished(
        boot_id="boot-0.0",
        slot=0,
        cell_id="c",
        at_utc="2026-01-01T00:00:00Z",
        wall_ns=1,
        request_count=1,
        client=example_client(1),
    )
    with Journal(tmp_path, as_it_is) as journal, Path("/dev/full").open("ab", buffering=0) as full:
        journal._files[layout.CELLS].close()
        journal._files[layout.CELLS] = full
        with pytest.raises(MachineError, match="No space left") as caught:
            journal._append(layout.CELLS, [record], sync=False)
    assert caught.value.hint.endswith(f"k3-eval resume {tmp_path}")

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from k3bundle import layout
from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.run import BootStarted, CellFinished
from k3runner import events
from k3runner.errors import EngineError, MachineError, UsageError
from k3runner.run import ConfigOverrides, resume, run
from k3runner.run_folder import hold
from k3runner_testing.run_case import CHANGE, bundle_records, fake_config

# Runs in a process of its own and tells each finished cell, so that it can be killed at one.
_RUNNER = """
import sys
from pathlib import Path
from k3runner import events
from k3runner.run import run
from k3runner_testing.run_case import CHANGE, fake_config
def tell(event):
    if isinstance(event, events.CellEnded):
        print(event.slot, event.cell_id, flush=True)
run(fake_config(Path(sys.argv[1])), CHANGE, tell)
"""


def ignore(_: events.Event) -> None:
    return None


def only_run(folder: Path) -> Path:
    (found,) = (folder / "runs").iterdir()
    return found


def stopped_run(folder: Path) -> Path:
    """A run that stopped in its second boot because the candidate does not start."""
    with pytest.raises(EngineError):
        run(fake_config(folder, candidate={"start": "dies"}), CHANGE, ignore)
    return only_run(folder)


def test_resume_after_kill_in_the_second_boot_completes_the_bundle(tmp_path: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", _RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    while not runner.stdout.readline().startswith("1 sampling"):
        assert runner.poll() is None
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    runner.stdout.close()
    folder = only_run(tmp_path)
    # As a kill inside a write leaves it.
    with (folder / layout.CELLS).open("ab") as journal:
        journal.write(b'{"event":"finis')

    result = resume(folder, ConfigOverrides(), ignore)
    assert result.verdict.status == "PASS", result.verdict.sentence
    assert result.verdict.resumed
    records = bundle_records(result.bundle_path)
    assert [one.torn_lines_dropped for one in records.attempts] == [0, 1]
    subject = sha256_hex(canonical_json(records.subject))
    assert [one.subject_sha256 for one in records.attempts] == [subject, subject]
    started = [one.boot_id for one in records.boots if isinstance(one, BootStarted)]
    assert started == ["boot-0.0", "boot-1.0", "boot-1.1", "boot-2.1", "boot-3.1"]
    finished = [(one.slot, one.cell_id) for one in records.cells if isinstance(one, CellFinished)]
    assert len(finished) == len(set(finished)) == 4 * len(records.plan.cells)
    assert any(one.boot_id == "boot-1.0" and one.cell_id == "sampling" for one in records.cells)

    with pytest.raises(UsageError, match="finished and sealed"):
        resume(folder, ConfigOverrides(), ignore)


def test_resume_with_another_model_is_refused_and_named(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path)
    (tmp_path / "model" / "extra.bin").write_bytes(b"x")
    with pytest.raises(MachineError, match=r"model\.extra\.bin was absent"):
        resume(folder, ConfigOverrides(), ignore)


def test_resume_with_another_plan_is_refused_and_named(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path)
    subject = tmp_path / "fake.toml"
    subject.write_text(subject.read_text("utf-8").replace('"candidate"\n', '"fast"\n', 1), "utf-8")
    text = subject.read_text("utf-8").replace('name = "fast"', 'name = "candidate"')
    subject.write_text(text.replace('decode_backend = "candidate"', 'decode_backend = "fast"'))
    with pytest.raises(MachineError, match=r"arms\.1\.decode_backend was candidate and is fast"):
        resume(folder, ConfigOverrides(), ignore)


def test_resume_with_another_engine_package_is_refused_and_named(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path)
    path = folder / layout.SUBJECT
    recorded = json.loads(path.read_bytes())
    recorded["engine"]["packages"]["aiohttp"] = "0.1"
    path.write_text(json.dumps(recorded), "utf-8")
    with pytest.raises(MachineError, match=r"engine\.packages\.aiohttp was 0\.1"):
        resume(folder, ConfigOverrides(), ignore)


def test_resume_while_another_runner_holds_the_folder_is_refused(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path)
    with hold(folder), pytest.raises(MachineError, match=f"process {os.getpid()}"):
        resume(folder, ConfigOverrides(), ignore)


def test_resume_folder_that_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        resume(tmp_path, ConfigOverrides(), ignore)


def test_resume_takes_another_key(tmp_path: Path) -> None:
    config = replace(fake_config(tmp_path, candidate={"start": "dies"}))
    with pytest.raises(EngineError):
        run(config, CHANGE, ignore)
    folder = only_run(tmp_path)
    with pytest.raises(EngineError):
        resume(folder, ConfigOverrides(key_path=tmp_path / "other"), ignore)
    assert (tmp_path / "other.pub").is_file()

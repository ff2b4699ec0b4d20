"""What is watched beside the measurement: records of one boot, without an engine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k3bundle.separation import SeparationRecord
from k3bundle.telemetry import TelemetrySource
from k3runner.errors import MachineError
from k3runner.events import Event, Remark
from k3runner.journal import Journal
from k3runner.run_watch import RunWatch
from k3runner.separation.engine_user import OtherUser
from k3runner.telemetry.nvml import GpuReader, NvmlAbsent, open_gpus
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml
from k3runner_testing.run_case import fake_config

NONCE = "ab" * 32


@contextmanager
def _watch(
    tmp_path: Path, folder: Path, events: list[Event] | None = None
) -> Iterator[tuple[RunWatch, Journal]]:
    folder.mkdir(exist_ok=True)
    place = tmp_path / f"config-{len(list(tmp_path.iterdir()))}"
    place.mkdir()
    config = fake_config(place)
    listener = [] if events is None else events
    with (
        Journal(folder, lambda _name, record: record) as journal,
        RunWatch(
            config,
            folder,
            nonce=NONCE,
            places={str(folder): "<run>"},
            emit=listener.append,
        ) as watch,
    ):
        yield watch, journal


def _separation(folder: Path) -> list[SeparationRecord]:
    lines = (folder / "separation.jsonl").read_bytes().splitlines()
    return [SeparationRecord.model_validate_json(line) for line in lines]


def _use(monkeypatch: pytest.MonkeyPatch, *gpus: FakeGpu) -> None:
    def opened(_visible: str | None) -> GpuReader | NvmlAbsent:
        return open_gpus(None, FakeNvml(*gpus))

    monkeypatch.setattr("k3runner.run_watch.open_gpus", opened)


def test_a_boot_has_its_source_and_its_separation(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (
        _watch(tmp_path, folder) as (watch, journal),
        watch.boot("boot-0.0", "baseline", journal) as place,
    ):
        place.on_started()
        assert place.folder.is_dir()
    (record,) = _separation(folder)
    assert (record.boot_id, record.alterations) == ("boot-0.0", ())
    assert (record.engine_user == "other") == (record.why_same is None)
    (line,) = (folder / "telemetry.jsonl").read_bytes().splitlines()
    assert TelemetrySource.model_validate_json(line).boot_id == "boot-0.0"


def test_a_boot_that_was_never_journaled_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (
        _watch(tmp_path, folder) as (watch, journal),
        pytest.raises(MachineError, match="port"),
        watch.boot("boot-0.0", "baseline", journal),
    ):
        raise MachineError("The port is in use.", "Choose another.")
    assert _separation(folder) == []
    assert (folder / "telemetry.jsonl").read_bytes() == b""


def test_a_candidate_that_writes_the_referees_files_is_caught(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    (folder / "cells.jsonl").write_text('{"cell": 1}\n')
    events: list[Event] = []
    with (
        _watch(tmp_path, folder, events) as (watch, journal),
        watch.boot("boot-1.0", "candidate", journal) as place,
    ):
        place.on_started()
        (folder / "plan.json").write_text('{"gates": "none"}')
        (folder / "cells.jsonl").write_text('{"cell": 2}\n')
    (record,) = _separation(folder)
    assert [(one.path, one.kind) for one in record.alterations] == [
        ("<run>/cells.jsonl", "records_rewritten"),
        ("<run>/plan.json", "content"),
    ]
    told = [event.text for event in events if isinstance(event, Remark)]
    assert any("2 protected files changed" in text for text in told)


def test_as_root_the_records_are_closed_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = OtherUser(os.getuid(), os.getgid(), "somebody")
    monkeypatch.setattr("k3runner.run_watch.choose_engine_user", lambda *_a, **_k: user)
    folder = tmp_path / "run"
    with (
        _watch(tmp_path, folder) as (watch, journal),
        watch.boot("boot-0.0", "baseline", journal) as place,
    ):
        place.on_started()
        assert place.user == user
        assert place.folder != folder
        assert place.environment["HOME"] == str(place.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert _separation(folder)[0].engine_user == "other"


def test_other_gpus_than_those_of_the_boots_before_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    _use(monkeypatch, FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b"))
    with (
        _watch(tmp_path, folder) as (watch, journal),
        watch.boot("boot-0.0", "baseline", journal) as place,
    ):
        place.on_started()
    with _watch(tmp_path, folder):
        pass
    _use(monkeypatch, FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-c"), FakeGpu(uuid="GPU-d"))
    with (
        pytest.raises(MachineError, match=r"1 of 2 GPUs of the earlier boots .* and 2 others"),
        _watch(tmp_path, folder),
    ):
        pass


def test_a_server_of_somebody_else_has_no_gpus_that_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (
        _watch(tmp_path, folder) as (watch, journal),
        watch.existing_server("boot-0.0", journal) as telemetry,
    ):
        telemetry.take()
        first, *_ = telemetry.cell_lines("cell", began_ns=0)
    assert first.kind == "unavailable"
    assert "not started by the runner" in first.reason

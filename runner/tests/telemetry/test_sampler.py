"""Samples of a boot, and the part of them that belongs to one cell."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from k3bundle.telemetry import TelemetrySample, TelemetryUnavailable
from k3runner.telemetry.host import HostReader
from k3runner.telemetry.nvml import GpuReader, NvmlAbsent, open_gpus
from k3runner.telemetry.sampler import BootTelemetry, Stamp
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml

SALT = "ab" * 32


def _gpus(*gpus: FakeGpu) -> GpuReader:
    reader = open_gpus(None, FakeNvml(*gpus))
    assert isinstance(reader, GpuReader)
    return reader


def _clock(stamps: list[int], utc: str = "2026-01-01T00:00:00Z") -> Callable[[], Stamp]:
    left: Iterator[int] = iter(stamps)
    return lambda: Stamp(utc, next(left))


def _telemetry(gpus: GpuReader | NvmlAbsent, root: Path, stamps: list[int]) -> BootTelemetry:
    return BootTelemetry("boot-0.0", gpus, HostReader(root), salt=SALT, clocks=_clock(stamps))


def _samples(lines: object) -> list[TelemetrySample]:
    assert isinstance(lines, tuple)
    return [line for line in lines if isinstance(line, TelemetrySample)]


def test_samples_of_a_cell_count_from_its_first_request(tmp_path: Path) -> None:
    telemetry = _telemetry(_gpus(FakeGpu()), tmp_path, [100, 200, 300])
    for _ in range(3):
        telemetry.take()
    lines = telemetry.cell_lines("cell", began_ns=200)
    assert [one.at_ns for one in _samples(lines)] == [0, 100]
    assert {one.cell_id for one in _samples(lines)} == {"cell"}


def test_what_was_before_a_cell_is_forgotten(tmp_path: Path) -> None:
    telemetry = _telemetry(_gpus(FakeGpu()), tmp_path, [100, 200])
    telemetry.take()
    telemetry.forget()
    telemetry.take()
    assert len(_samples(telemetry.cell_lines("cell", began_ns=0))) == 1


def test_without_nvml_the_cell_says_why_and_the_host_is_still_sampled(tmp_path: Path) -> None:
    telemetry = _telemetry(NvmlAbsent("NVML does not start: none."), tmp_path, [100])
    telemetry.take()
    first, second = telemetry.cell_lines("cell", began_ns=0)
    assert isinstance(first, TelemetryUnavailable)
    assert first.reason == "NVML does not start: none."
    assert isinstance(second, TelemetrySample)
    assert second.gpus == ()
    assert telemetry.source().gpus == ()


def test_a_cell_that_no_sample_fell_into_says_so(tmp_path: Path) -> None:
    telemetry = _telemetry(_gpus(FakeGpu()), tmp_path, [])
    (line,) = telemetry.cell_lines("cell", began_ns=0)
    assert isinstance(line, TelemetryUnavailable)
    assert line.reason == "No sample was taken while the cell ran."


def test_the_source_names_gpus_driver_and_interval(tmp_path: Path) -> None:
    source = _telemetry(_gpus(FakeGpu(), FakeGpu(uuid="GPU-1")), tmp_path, []).source()
    assert (len(source.gpus), source.driver_version, source.interval_ms) == (2, "580.95.05", 500)
    assert source.host_unread


def test_b15_labels_are_utc_whatever_the_zone_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone in ("Asia/Tokyo", "Asia/Yekaterinburg", "UTC"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        telemetry = BootTelemetry("boot-0.0", _gpus(FakeGpu()), HostReader(tmp_path), salt=SALT)
        telemetry.take()
        (sample,) = _samples(telemetry.cell_lines("cell", began_ns=0))
        now = time.strftime("%Y-%m-%dT%H", time.gmtime())
        assert sample.at_utc.startswith(now) or time.gmtime().tm_min == 0
        assert sample.at_utc.endswith("Z")
    monkeypatch.undo()
    time.tzset()


def test_a_slow_driver_leaves_a_gap_and_no_burst_after_it(tmp_path: Path) -> None:
    delays = iter([0.0, 0.2])

    def power() -> int:
        time.sleep(next(delays, 0.0))
        return 1

    gpus = _gpus(FakeGpu(answers={"power_mw": power}))
    telemetry = BootTelemetry("boot-0.0", gpus, HostReader(tmp_path), salt=SALT, interval_ms=20)
    began = time.monotonic_ns()
    with telemetry:
        time.sleep(0.5)
    stamps = [one.at_ns for one in _samples(telemetry.cell_lines("cell", began_ns=began))]
    distances = [later - earlier for earlier, later in pairwise(stamps)]
    assert max(distances) >= 200_000_000
    assert min(distances) >= 5_000_000
    assert len(stamps) >= 5


def test_sampling_ends_with_the_boot(tmp_path: Path) -> None:
    telemetry = BootTelemetry(
        "boot-0.0", _gpus(FakeGpu()), HostReader(tmp_path), salt=SALT, interval_ms=10
    )
    with telemetry:
        time.sleep(0.05)
    taken = len(telemetry.cell_lines("cell", began_ns=0))
    time.sleep(0.05)
    assert len(telemetry.cell_lines("cell", began_ns=0)) == taken
    assert taken >= 2

"""The host's state from recorded text, with what is missing as null."""

from pathlib import Path

import pytest

from k3runner.telemetry.host import HostReader
from k3runner.telemetry.host_text import (
    CpuTimes,
    busy_share,
    cpu_list,
    cpu_times,
    memory_bytes,
    pressure_shares,
)

STAT = """cpu  100 0 50 850 0 0 0 0 10 0
cpu0 60 0 20 400 20 0 0 0 5 0
cpu1 40 0 30 450 0 0 0 0 5 0
intr 1 2 3
"""
LATER = """cpu  200 0 50 950 0 0 0 0 10 0
cpu0 160 0 20 400 20 0 0 0 5 0
cpu1 40 0 30 550 0 0 0 0 5 0
"""
MEMINFO = "MemTotal:  1000 kB\nMemAvailable:  600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"
PRESSURE = "some avg10=12.50 avg60=1.00 avg300=0.10 total=123\nfull avg10=2.00 avg60=0 total=1\n"


def _host(root: Path) -> None:
    files = {
        "proc/stat": STAT,
        "proc/meminfo": MEMINFO,
        "proc/pressure/memory": PRESSURE,
        "proc/pressure/cpu": "some avg10=50.00 avg60=0.00 avg300=0.00 total=0\n",
        "sys/devices/system/node/node0/cpulist": "0\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemFree: 300 kB\n",
        "sys/devices/system/node/node1/cpulist": "1\n",
        "sys/devices/system/node/possible": "0-1\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_sample_holds_shares_since_the_reading_before(tmp_path: Path) -> None:
    _host(tmp_path)
    walls, cpus = iter([10.0, 12.0]), iter([1.0, 1.5])
    reader = HostReader(tmp_path, wall_s=lambda: next(walls), cpu_s=lambda: next(cpus))
    (tmp_path / "proc/stat").write_text(LATER)
    sample = reader.sample()
    assert sample.cpu_share == 0.5
    assert sample.runner_cpu_share == 0.25
    assert sample.memory_available_bytes == 600 * 1024
    assert sample.swap_used_bytes == 30 * 1024
    assert (sample.memory_pressure_share, sample.memory_full_pressure_share) == (0.125, 0.02)
    assert (sample.cpu_pressure_share, sample.io_pressure_share) == (0.5, None)
    assert [(n.node, n.cpu_share, n.memory_free_bytes) for n in sample.numa] == [
        (0, 1.0, 300 * 1024),
        (1, 0.0, None),
    ]
    assert reader.unread() == ("io pressure: /proc/pressure/io is not there",)


def test_a_system_that_shows_nothing_gives_nulls_and_says_so(tmp_path: Path) -> None:
    reader = HostReader(tmp_path)
    sample = reader.sample()
    assert (sample.cpu_share, sample.memory_available_bytes, sample.numa) == (None, None, ())
    assert len(reader.unread()) == 6


def test_this_machine_is_read() -> None:
    sample = HostReader().sample()
    assert sample.memory_available_bytes
    assert sample.memory_available_bytes > 1 << 20


def test_ticks_count_guests_once() -> None:
    assert cpu_times(STAT) == {0: CpuTimes(80, 500), 1: CpuTimes(70, 520)}


@pytest.mark.parametrize(
    ("before", "now", "share"),
    [
        ({0: CpuTimes(0, 0)}, {0: CpuTimes(5, 10)}, 0.5),
        ({0: CpuTimes(0, 10)}, {0: CpuTimes(0, 10)}, None),
        ({0: CpuTimes(5, 10)}, {0: CpuTimes(2, 20)}, None),
        ({}, {0: CpuTimes(5, 10)}, None),
    ],
)
def test_a_share_needs_time_that_went_forwards(
    before: dict[int, CpuTimes], now: dict[int, CpuTimes], share: float | None
) -> None:
    assert busy_share(before, now) == share


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("", ()), ("5", (5,)), ("0-1,4-5", (0, 1, 4, 5))],
)
def test_lists_of_cpus_are_read(text: str, cpus: tuple[int, ...]) -> None:
    assert cpu_list(text) == cpus


def test_memory_and_pressure_text_that_lacks_a_value_has_none() -> None:
    assert memory_bytes("MemFree: x kB", "MemFree") is None
    assert memory_bytes("", "MemFree") is None
    assert pressure_shares("") == {}

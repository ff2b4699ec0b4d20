"""Reads the host's state; keeps the reading before, since shares are between two readings."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3bundle.telemetry import HostSample, NumaSample
from k3runner.telemetry.host_text import (
    CpuTimes,
    busy_share,
    cpu_list,
    cpu_times,
    memory_bytes,
    pressure_shares,
)

__all__ = ["HostReader"]

_PRESSURE: Final = ("cpu", "memory", "io")


@dataclass(frozen=True)
class _Node:
    number: int
    cpus: tuple[int, ...]
    folder: Path


class HostReader:
    """The host, read from `/proc` and `/sys`."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        wall_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """Takes the first reading.

        Args:
            root: Folder that holds `proc` and `sys`.
            wall_s: Monotonic clock, in seconds.
            cpu_s: CPU time of this process, in seconds.
        """
        self._root = root
        self._wall_s = wall_s
        self._cpu_s = cpu_s
        self._nodes = self._find_nodes()
        self._times: dict[int, CpuTimes] = cpu_times(self._text("proc/stat"))
        self._own = (wall_s(), cpu_s())

    def unread(self) -> tuple[str, ...]:
        """Parts of the state that this system does not show, in sentences."""
        parts = [
            ("proc/stat", "CPU times"),
            ("proc/meminfo", "memory"),
            *((f"proc/pressure/{kind}", f"{kind} pressure") for kind in _PRESSURE),
        ]
        missing = [f"{what}: /{path} is not there" for path, what in parts if not self._text(path)]
        if not self._nodes:
            missing.append("NUMA nodes: /sys/devices/system/node shows none")
        return tuple(missing)

    def sample(self) -> HostSample:
        """The host now."""
        now = cpu_times(self._text("proc/stat"))
        before, self._times = self._times, now
        memory = self._text("proc/meminfo")
        pressure = {
            kind: pressure_shares(self._text(f"proc/pressure/{kind}")) for kind in _PRESSURE
        }
        swap_total, swap_free = (memory_bytes(memory, key) for key in ("SwapTotal", "SwapFree"))
        return HostSample(
            cpu_share=busy_share(before, now),
            runner_cpu_share=self._own_share(),
            memory_available_bytes=memory_bytes(memory, "MemAvailable"),
            swap_used_bytes=(
                None if swap_total is None or swap_free is None else max(0, swap_total - swap_free)
            ),
            memory_pressure_share=pressure["memory"].get("some"),
            memory_full_pressure_share=pressure["memory"].get("full"),
            cpu_pressure_share=pressure["cpu"].get("some"),
            io_pressure_share=pressure["io"].get("some"),
            numa=tuple(
                NumaSample(
                    node=node.number,
                    cpu_share=busy_share(before, now, node.cpus),
                    memory_free_bytes=memory_bytes(_read(node.folder / "meminfo"), "MemFree"),
                )
                for node in self._nodes
            ),
        )

    def _own_share(self) -> float | None:
        before, self._own = self._own, (self._wall_s(), self._cpu_s())
        wall, cpu = (now - then for now, then in zip(self._own, before, strict=True))
        return max(0.0, cpu / wall) if wall > 0 else None

    def _find_nodes(self) -> tuple[_Node, ...]:
        folder = self._root / "sys/devices/system/node"
        if not folder.is_dir():
            return ()
        return tuple(
            _Node(int(entry.name[4:]), cpu_list(_read(entry / "cpulist")), entry)
            for entry in sorted(folder.iterdir(), key=lambda one: (len(one.name), one.name))
            if entry.name.startswith("node") and entry.name[4:].isdigit()
        )

    def _text(self, name: str) -> str:
        return _read(self._root / name)


def _read(path: Path) -> str:
    """Text of a file; empty when it cannot be read, as in a container that hides it."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""

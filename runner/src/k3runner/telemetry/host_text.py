"""Parses what Linux tells about CPUs, memory and pressure. Pure: text in, numbers out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["CpuTimes", "busy_share", "cpu_list", "cpu_times", "memory_bytes", "pressure_shares"]

_IDLE: Final = 3
_IO_WAIT: Final = 4
_COUNTED: Final = 8
"""Columns up to `steal`; the two guest columns are counted in `user` and `nice` already."""
_KIB: Final = 1024


@dataclass(frozen=True)
class CpuTimes:
    """Ticks of one CPU since the system started."""

    busy: int
    total: int


def cpu_times(stat: str) -> dict[int, CpuTimes]:
    """Ticks by CPU number, from the text of `/proc/stat`."""
    found: dict[int, CpuTimes] = {}
    for line in stat.splitlines():
        name, _, rest = line.partition(" ")
        if not name.startswith("cpu") or not name[3:].isdigit():
            continue
        ticks = [int(word) for word in rest.split()[:_COUNTED]]
        if len(ticks) > _IO_WAIT:
            total = sum(ticks)
            idle = ticks[_IDLE] + ticks[_IO_WAIT]
            found[int(name[3:])] = CpuTimes(busy=total - idle, total=total)
    return found


def busy_share(
    before: Mapping[int, CpuTimes], now: Mapping[int, CpuTimes], cpus: Iterable[int] | None = None
) -> float | None:
    """Busy share between two readings.

    Args:
        before: The earlier reading; CPUs that it lacks are left out.
        now: The later one.
        cpus: CPUs that count; None: all.

    Returns:
        A share between 0 and 1; None when no tick passed or a counter went backwards.
    """
    both = [cpu for cpu in (now if cpus is None else cpus) if cpu in now and cpu in before]
    busy = sum(now[cpu].busy - before[cpu].busy for cpu in both)
    total = sum(now[cpu].total - before[cpu].total for cpu in both)
    # The kernel corrects idle time backwards at times; such an interval has no share.
    return busy / total if total > 0 and 0 <= busy <= total else None


def memory_bytes(text: str, key: str) -> int | None:
    """A value of `/proc/meminfo` or of a NUMA node's `meminfo`, in bytes; None when absent."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.split(" ")[-1] == key:
            words = rest.split()
            return int(words[0]) * _KIB if words and words[0].isdigit() else None
    return None


def pressure_shares(text: str) -> dict[str, float]:
    """Shares of the last ten seconds, from the text of a file below `/proc/pressure`.

    Returns:
        `some` and `full` -> share between 0 and 1.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name == "avg10":
                found[kind] = min(1.0, max(0.0, float(value) / 100))
    return found


def cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of a list such as `0-3,8,10-11`."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)

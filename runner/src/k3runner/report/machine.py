"""What was seen of the machine, boot by boot: extents of what was sampled. Pure.

Nothing here is judged. Gaps and throttling are those of the verdict; the other extents are the
lowest, middle and highest raw sample, for a reader who looks whether both arms had one machine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.run import BootStarted
from k3bundle.telemetry import GpuSample, HostSample, TelemetrySample
from k3bundle.verdict import BootMeasurement, CellSkipped, ServingEvidence, Verdict

__all__ = ["BootExtent", "MachineChart", "MachineView", "machine_view"]


@dataclass(frozen=True)
class BootExtent:
    """Lowest, middle and highest value in one boot."""

    slot: int
    arm: str
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class MachineChart:
    """One quantity over the boots, in boot order."""

    name: str
    unit: str
    boots: tuple[BootExtent, ...]
    limit: float | None
    """Gate of the plan; None where it has none for it."""


@dataclass(frozen=True)
class MachineView:
    """Accelerators and host while cells ran."""

    accelerators: tuple[MachineChart, ...]
    """Empty where nothing was sampled of them."""
    host: tuple[MachineChart, ...]
    absent: tuple[str, ...]
    """Why there is nothing of accelerators, in sentences, each once."""
    unread: tuple[str, ...]
    """Values that the driver or the system does not give, each once."""


_GPU: Final[tuple[tuple[str, str, Callable[[GpuSample], float | None]], ...]] = (
    ("Clock of the multiprocessors", "MHz", lambda gpu: gpu.sm_clock_mhz),
    ("Power", "W", lambda gpu: gpu.power_w),
    ("Temperature", "°C", lambda gpu: gpu.temperature_c),
    ("Share of time with a kernel", "%", lambda gpu: _percent(gpu.busy_share)),
)
_HOST: Final[tuple[tuple[str, str, Callable[[HostSample], float | None]], ...]] = (
    ("Busy CPUs", "%", lambda host: _percent(host.cpu_share)),
    ("CPU time of the referee", "% of a core", lambda host: _percent(host.runner_cpu_share)),
    ("Waiting for memory", "%", lambda host: _percent(host.memory_pressure_share)),
)


def machine_view(records: RunRecords, verdict: Verdict) -> MachineView:
    """Return what the report shows of the machine.

    Args:
        records: What the run recorded.
        verdict: Derived from these records.
    """
    slots = {e.boot_id: e for e in records.boots if isinstance(e, BootStarted)}
    samples: dict[str, list[TelemetrySample]] = {}
    absent: dict[str, None] = {}
    unread: dict[str, None] = {}
    for line in records.telemetry:
        if line.kind == "sample":
            samples.setdefault(line.boot_id, []).append(line)
        elif line.kind == "unavailable":
            absent[line.reason] = None
        else:
            unread.update(dict.fromkeys(line.host_unread))
            unread.update(dict.fromkeys(one for gpu in line.gpus for one in gpu.unread))
    if not records.telemetry:
        absent["The run recorded no telemetry at all."] = None
    boots = {slots[boot_id]: found for boot_id, found in samples.items() if boot_id in slots}
    gpus = [
        MachineChart(name, unit, _extents(boots, _of_gpus(read)), None) for name, unit, read in _GPU
    ]
    hosts = [
        MachineChart(name, unit, _extents(boots, _of_host(read)), None)
        for name, unit, read in _HOST
    ]
    return MachineView(
        accelerators=tuple(one for one in (*gpus, *_gated(records, verdict)) if one.boots),
        host=tuple(one for one in hosts if one.boots),
        absent=tuple(absent),
        unread=tuple(unread),
    )


def _gated(records: RunRecords, verdict: Verdict) -> tuple[MachineChart, ...]:
    """Throttling and gaps as the verdict has them: one value for each serving cell of a boot."""
    measured: dict[int, list[BootMeasurement]] = {}
    for cell in verdict.cells:
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, ServingEvidence):
            for boot in cell.evidence.boots:
                measured.setdefault(boot.slot, []).append(boot)
    gates = records.plan.gates
    return (
        MachineChart(
            "Samples with lowered clocks",
            "%",
            _measured_extents(measured, lambda boot: _percent(boot.throttled_share)),
            _percent(gates.maximum_throttled_share),
        ),
        MachineChart(
            "Longest time without a sample",
            "ms",
            _measured_extents(measured, lambda boot: boot.telemetry_gap_ms),
            gates.maximum_telemetry_gap_ms,
        ),
    )


def _measured_extents(
    measured: Mapping[int, list[BootMeasurement]],
    read: Callable[[BootMeasurement], float | None],
) -> tuple[BootExtent, ...]:
    found = []
    for slot, boots in sorted(measured.items()):
        extent = _extent(slot, boots[0].arm, map(read, boots))
        if extent is not None:
            found.append(extent)
    return tuple(found)


def _extents(
    boots: Mapping[BootStarted, list[TelemetrySample]],
    read: Callable[[TelemetrySample], Iterable[float | None]],
) -> tuple[BootExtent, ...]:
    found = []
    for boot, samples in boots.items():
        values = (value for sample in samples for value in read(sample))
        extent = _extent(boot.slot, boot.arm, values)
        if extent is not None:
            found.append(extent)
    return tuple(found)


def _extent(slot: int, arm: str, values: Iterable[float | None]) -> BootExtent | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return BootExtent(slot, arm, min(known), median(known), max(known))


def _of_gpus(
    read: Callable[[GpuSample], float | None],
) -> Callable[[TelemetrySample], Iterable[float | None]]:
    return lambda sample: map(read, sample.gpus)


def _of_host(
    read: Callable[[HostSample], float | None],
) -> Callable[[TelemetrySample], Iterable[float | None]]:
    return lambda sample: (read(sample.host),)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share

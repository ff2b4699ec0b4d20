"""Samples of the machine while a cell runs, or why there are none."""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.record import CellId, Count, Fraction, Nanoseconds, Record, ShortText, UtcTimestamp
from k3bundle.run import BootId

__all__ = [
    "GpuIdentity",
    "GpuSample",
    "HostSample",
    "NumaSample",
    "TelemetryLine",
    "TelemetrySample",
    "TelemetrySource",
    "TelemetryUnavailable",
]


class GpuSample(Record):
    """One accelerator at one moment. A value that the driver does not give is None, never 0."""

    index: Count
    """Index on the node."""
    sm_clock_mhz: float | None = Field(ge=0)
    """Clock of the multiprocessors."""
    memory_clock_mhz: float | None = Field(ge=0)
    """Clock of the memory."""
    power_w: float | None = Field(ge=0)
    """Power draw."""
    temperature_c: float | None
    """Temperature of the chip."""
    clock_event_reasons: Count | None
    """NVML's bit mask of why clocks are below their highest."""
    ecc_corrected: Count | None = None
    """Corrected memory errors since the driver was loaded."""
    ecc_uncorrected: Count | None
    """Uncorrected memory errors since the driver was loaded."""
    memory_used_bytes: Count | None
    """Memory in use."""
    busy_share: Fraction | None = None
    """Share of the driver's last interval in which a kernel ran."""


class NumaSample(Record):
    """One NUMA node of the host at one moment."""

    node: Count
    """Number of the node."""
    cpu_share: Fraction | None
    """Share of its CPUs that was busy since the sample before."""
    memory_free_bytes: Count | None
    """Free memory."""


class HostSample(Record):
    """The host at one moment."""

    cpu_share: Fraction | None
    """Share of all CPUs that was busy since the sample before."""
    runner_cpu_share: float | None = Field(default=None, ge=0)
    """CPU time / wall time of the runner's process since the sample before, so 1 is one core."""
    memory_available_bytes: Count | None
    """Memory that can still be given to programs."""
    swap_used_bytes: Count | None = None
    """Swap in use."""
    memory_pressure_share: Fraction | None
    """Share of the last ten seconds in which some task waited for memory."""
    memory_full_pressure_share: Fraction | None = None
    """Share of the last ten seconds in which all tasks waited for memory."""
    cpu_pressure_share: Fraction | None = None
    """Share of the last ten seconds in which some task waited for a CPU."""
    io_pressure_share: Fraction | None = None
    """Share of the last ten seconds in which some task waited for input or output."""
    numa: tuple[NumaSample, ...] = ()
    """NUMA nodes; empty where the system does not show them."""


class TelemetrySample(Record):
    """All accelerators and the host at one moment of a cell."""

    kind: Literal["sample"] = "sample"
    """Tag."""
    boot_id: BootId
    """Boot that ran."""
    cell_id: CellId
    """Cell that ran."""
    at_utc: UtcTimestamp
    """When, as a label."""
    at_ns: Nanoseconds
    """Monotonic time from the start of the cell, on the clock of its requests."""
    gpus: tuple[GpuSample, ...]
    """One entry per accelerator that the boot may use."""
    host: HostSample
    """The host."""


class TelemetryUnavailable(Record):
    """There are no samples of accelerators for a cell."""

    kind: Literal["unavailable"] = "unavailable"
    """Tag."""
    boot_id: BootId
    """Boot that ran."""
    cell_id: CellId
    """Cell that ran."""
    reason: ShortText
    """Why, in one sentence, for example that the machine has no NVML."""


class GpuIdentity(Record):
    """One accelerator that is sampled."""

    index: Count
    """Index on the node."""
    gpu: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Salted digest."""
    name: str = Field(max_length=160)
    """Product name."""
    unread: tuple[ShortText, ...]
    """Values that its driver does not give, each with the driver's reason."""


class TelemetrySource(Record):
    """What is sampled in a boot, and what cannot be."""

    kind: Literal["source"] = "source"
    """Tag."""
    boot_id: BootId
    """The boot."""
    interval_ms: int = Field(ge=10, le=60_000)
    """Planned time between samples."""
    gpus: tuple[GpuIdentity, ...]
    """Accelerators that are sampled; empty without NVML."""
    driver_version: str | None = Field(max_length=80)
    """Version of the driver; None without NVML."""
    host_unread: tuple[ShortText, ...]
    """Parts of the host's state that this system does not show."""


TelemetryLine = Annotated[
    TelemetrySample | TelemetryUnavailable | TelemetrySource, Field(discriminator="kind")
]
"""One line of `telemetry.jsonl`."""

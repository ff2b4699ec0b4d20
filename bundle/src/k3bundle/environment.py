"""The machines a run happened on, free of names that identify a person or a host."""

from pydantic import Field

from k3bundle.record import Count, Record, ShortText

__all__ = ["GpuFacts", "NodeFacts"]


class GpuFacts(Record):
    """One GPU."""

    name: str = Field(max_length=160)
    """Product name."""
    memory_bytes: Count
    """Total device memory in bytes."""
    compute_capability: str = Field(max_length=16)
    """For example `9.0`."""
    hardware: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}$")
    """Digest of the serial identity that the driver gives, equal in every run on this accelerator:
    a run by somebody else on the same one confirms nothing. The identity cannot be had from it.
    None where the driver gives none, and in records of earlier versions."""


class NodeFacts(Record):
    """One machine, or several alike. No host or user name, address or serial number is recorded;
    accelerators have a digest that only tells whether two runs used the same one.
    """

    architecture: str = Field(max_length=40)
    """For example `x86_64`."""
    operating_system: str = Field(max_length=160)
    """For example `Debian GNU/Linux 12`."""
    kernel: str = Field(max_length=160)
    """Kernel release."""
    cpu_model: str = Field(max_length=160)
    """CPU model name as the system reports it."""
    cpu_count: int = Field(ge=1, le=1_000_000)
    """CPUs that this process may use."""
    memory_bytes: Count
    """Physical memory in bytes."""
    gpus: tuple[GpuFacts, ...]
    """GPUs that the engine may use; empty on a CPU-only machine."""
    driver_version: str | None
    """GPU driver version; None without a GPU."""
    runner_version: str = Field(max_length=80)
    """Version of the runner that measured."""
    runner_python_version: str = Field(max_length=40)
    """Python version of the runner's own environment."""
    remarks: tuple[ShortText, ...]
    """Anything a reader should know, for example that no NVML was found."""
    node_count: int = Field(default=1, ge=1, le=100_000)
    """Machines that the engine ran on; every other field is of one of them. What holds on one says
    nothing about several, where other links and other code carry the exchanges."""

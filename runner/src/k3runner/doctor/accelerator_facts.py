"""What decides before a load whether accelerators can be used: driver, fabric, channels, ports."""

from typing import Literal

from pydantic import Field

from k3bundle.record import Count, Record, ShortText

__all__ = ["AcceleratorFacts", "AcceleratorsFacts", "CudaVersion", "FabricState", "PortFacts"]

CudaVersion = tuple[int, int]
"""Major and minor, for example (13, 0)."""

FabricState = Literal["unsupported", "not started", "in progress", "completed", "unread"]
"""How far the accelerator has joined the NVLink fabric; `unread`: the driver does not say."""


class AcceleratorFacts(Record):
    """One accelerator."""

    name: ShortText
    """For example `NVIDIA GB300`."""
    compute_capability: CudaVersion | None
    """Major and minor, for example (10, 3); None where the driver does not say."""
    fabric: FabricState
    """Its state on the NVLink fabric."""
    fabric_healthy: bool | None
    """Whether the fabric says that the accelerator is well; None where it says nothing."""
    cluster: ShortText | None
    """Digest of the fabric's cluster; None where it is in none. Equal digests, same cluster."""


class PortFacts(Record):
    """One port of a network adapter for remote direct memory access."""

    name: ShortText
    """Adapter and port, for example `mlx5_0/1`."""
    state: ShortText
    """State as the kernel names it, for example `ACTIVE`."""


class AcceleratorsFacts(Record):
    """All accelerators that the engine may use, and what they depend on."""

    driver_version: ShortText | None
    """Version of the driver; None where it does not say."""
    driver_cuda: CudaVersion | None
    """Newest CUDA that the driver serves; None where it does not say."""
    compatibility_library: bool
    """Whether CUDA's forward-compatibility library is installed, which serves a newer CUDA."""
    accelerators: tuple[AcceleratorFacts, ...] = Field(min_length=1)
    """In the order of their index."""
    imex_channels: Count
    """Channels for memory of other nodes' accelerators that this process can see."""
    ports: tuple[PortFacts, ...]
    """Ports of network adapters, by name."""

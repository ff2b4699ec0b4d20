"""Reads how an accelerator stands on the NVLink fabric, through NVML."""

import ctypes
from dataclasses import dataclass
from typing import Any

__all__ = ["GpuFabric", "read_fabric"]

_STRUCTURES = ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")
"""Newest first; a driver refuses those that it does not know."""


@dataclass(frozen=True)
class GpuFabric:
    """What the driver says."""

    state: int
    """NVML_GPU_FABRIC_STATE_*."""
    health: int | None
    """NVML_GPU_FABRIC_HEALTH_SUMMARY_*; None from a driver that has no summary."""
    cluster: bytes
    """Identity of the fabric's cluster; zeros where it is in none."""


def read_fabric(library: Any, handle: Any) -> GpuFabric | None:
    """Asks the driver.

    Args:
        library: NVML's Python binding.
        handle: The accelerator.

    Returns:
        The answer; None where binding or driver has none.
    """
    for name in _STRUCTURES:
        try:
            found = getattr(library, name)()
            library.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(found))
        except (library.NVMLError, AttributeError):
            continue
        health = getattr(found, "healthSummary", None)
        return GpuFabric(
            state=int(found.state),
            health=None if health is None else int(health),
            cluster=bytes(found.clusterUuid),
        )
    return None

"""Reads what accelerators depend on: NVML, device files, and the kernel's list of ports."""

import hashlib
import os
from pathlib import Path
from typing import Final

from k3runner.doctor.accelerator_facts import (
    AcceleratorFacts,
    AcceleratorsFacts,
    FabricState,
    PortFacts,
)
from k3runner.telemetry.nvml import GpuReader, NvmlLibrary, open_gpus
from k3runner.telemetry.nvml_fabric import GpuFabric

__all__ = ["MachinePlaces", "accelerators_of_this_machine", "probe_accelerators"]

_DIGEST_DIGITS: Final = 16
_HEALTHY: Final = 1
_UNHEALTHY: Final = 2
"""NVML_GPU_FABRIC_HEALTH_SUMMARY_* of nvml.h."""
_STATES: Final[dict[int, FabricState]] = {
    0: "unsupported",
    1: "not started",
    2: "in progress",
    3: "completed",
}
"""NVML_GPU_FABRIC_STATE_* of nvml.h."""


class MachinePlaces:
    """Where the system shows what accelerators depend on; a test gives folders of its own."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.channels = root / "dev/nvidia-caps-imex-channels"
        """One file for each channel that this process may use."""
        self.adapters = root / "sys/class/infiniband"
        """One folder for each network adapter."""
        self.compatibility = root / "usr/local/cuda/compat"
        """Where CUDA's forward-compatibility library is installed."""


def accelerators_of_this_machine(library: NvmlLibrary | None = None) -> AcceleratorsFacts | None:
    """Looks at the accelerators that the engine may use; None where there is none to read.

    Args:
        library: NVML's binding; None: the installed one.
    """
    reader = open_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), library)
    if not isinstance(reader, GpuReader):
        return None
    try:
        return probe_accelerators(reader)
    finally:
        reader.close()


def probe_accelerators(reader: GpuReader, places: MachinePlaces | None = None) -> AcceleratorsFacts:
    """Looks at everything; a thing that is not there is not an error.

    Args:
        reader: The accelerators that the engine may use.
        places: Where to look.
    """
    where = places or MachinePlaces()
    return AcceleratorsFacts(
        driver_version=reader.driver_version,
        driver_cuda=reader.cuda_version,
        compatibility_library=any(where.compatibility.glob("libcuda.so*")),
        accelerators=tuple(
            _accelerator(facts.name, facts.compute_capability, fabric)
            for facts, fabric in zip(reader.facts(), reader.fabrics(), strict=True)
        ),
        imex_channels=len(list(where.channels.glob("channel*"))),
        ports=_ports(where.adapters),
    )


def _accelerator(name: str, capability: str, fabric: GpuFabric | None) -> AcceleratorFacts:
    major, _, minor = capability.partition(".")
    known = major.isdigit() and minor.isdigit()
    in_cluster = fabric is not None and any(fabric.cluster)
    return AcceleratorFacts(
        name=name,
        compute_capability=(int(major), int(minor)) if known else None,
        fabric="unread" if fabric is None else _STATES.get(fabric.state, "unread"),
        fabric_healthy=_healthy(fabric),
        cluster=hashlib.sha256(fabric.cluster).hexdigest()[:_DIGEST_DIGITS]
        if fabric is not None and in_cluster
        else None,
    )


def _healthy(fabric: GpuFabric | None) -> bool | None:
    if fabric is None or fabric.health not in (_HEALTHY, _UNHEALTHY):
        return None
    return fabric.health == _HEALTHY


def _ports(adapters: Path) -> tuple[PortFacts, ...]:
    found: list[PortFacts] = []
    for state in sorted(adapters.glob("*/ports/*/state")):
        try:
            # The kernel writes a number, a colon and a word.
            word = state.read_text("utf-8").partition(":")[2].strip()
        except OSError:
            word = ""
        name = f"{state.parents[2].name}/{state.parent.name}"
        found.append(PortFacts(name=name, state=word or "unreadable"))
    return tuple(found)

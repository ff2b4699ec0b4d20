"""Reads what this machine is, leaving out everything that names a person or a host."""

import os
import platform
from importlib import metadata
from pathlib import Path

from k3bundle.environment import NodeFacts

__all__ = ["read_node_facts"]


def read_node_facts(*, remarks: tuple[str, ...] = ()) -> NodeFacts:
    """Facts about this machine.

    Args:
        remarks: Sentences to add, for example about the engine's installation.

    Returns:
        The facts. This version knows CPU machines; on a machine with an NVIDIA driver it says
        in a remark that GPUs are not recorded.
    """
    notes = list(remarks)
    if Path("/proc/driver/nvidia/version").is_file():
        notes.append("An NVIDIA driver is present; this version does not record GPUs.")
    return NodeFacts(
        architecture=platform.machine(),
        operating_system=_operating_system(),
        kernel=platform.release(),
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=(),
        driver_version=None,
        runner_version=metadata.version("k3-runner"),
        runner_python_version=platform.python_version(),
        remarks=tuple(notes),
    )


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or "unknown"

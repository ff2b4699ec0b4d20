"""Reads what this machine is, leaving out everything that names a person or a host."""

import os
import platform
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from k3bundle.environment import GpuFacts, NodeFacts
from k3runner.errors import UsageError
from k3runner.telemetry.nvml import GpuReader, open_gpus

__all__ = ["load_node_facts", "read_node_facts"]


def read_node_facts(*, remarks: tuple[str, ...] = ()) -> NodeFacts:
    """Facts about this machine.

    Args:
        remarks: Sentences to add, for example about the engine's installation.

    Returns:
        The facts. GPUs are those that NVML shows and CUDA_VISIBLE_DEVICES admits; on a machine
        with an NVIDIA driver where NVML shows none, a remark says why.
    """
    notes = list(remarks)
    gpus: tuple[GpuFacts, ...] = ()
    driver_version = None
    reader = open_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if isinstance(reader, GpuReader):
        gpus, driver_version = reader.facts(), reader.driver_version
        reader.close()
    elif Path("/proc/driver/nvidia/version").is_file():
        notes.append(f"An NVIDIA driver is present, and no GPU can be read: {reader.reason}")
    return NodeFacts(
        architecture=platform.machine(),
        operating_system=_operating_system(),
        kernel=platform.release(),
        cpu_model=_cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=gpus,
        driver_version=driver_version,
        runner_version=metadata.version("k3-runner"),
        runner_python_version=platform.python_version(),
        remarks=tuple(notes),
    )


def load_node_facts(path: Path) -> NodeFacts:
    """Facts about another machine, as a bundle's `environment.json` has them.

    Raises:
        UsageError: The file is not there, or holds something else.
    """
    try:
        return NodeFacts.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"The node file {path} cannot be read: {error.strerror}.", "Correct the path."
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{path} does not describe a node: `{'.'.join(map(str, first['loc'])) or '$'}`: "
            f"{first['msg']}.",
            "Give the environment.json of a bundle.",
        ) from error


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

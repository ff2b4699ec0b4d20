"""Judges accelerators before anything is loaded on them. Pure.

A driver that is too old, a fabric that is not ready and a port that is down show themselves else
after the weights were loaded, as a hang or as an error from deep inside a library.
"""

from typing import Final

from k3runner.doctor.accelerator_facts import AcceleratorFacts, AcceleratorsFacts, CudaVersion
from k3runner.doctor.check import Check
from k3runner.wording import plural

__all__ = ["judge_accelerators"]

_OLDEST_CUDA: Final[tuple[tuple[CudaVersion, CudaVersion], ...]] = (
    ((12, 1), (13, 0)),
    ((12, 0), (12, 8)),
    ((10, 3), (13, 0)),
    ((10, 0), (12, 8)),
    ((9, 0), (11, 8)),
)
"""Compute capability and the first CUDA that serves it, newest first. NVIDIA's release notes say
12.9 for 10.3 and 12.1; engines of 12.9 have failed there all the same, in a tool of their own that
did not know `sm_103a`, after the weights were loaded."""
_PORT_UP: Final = "ACTIVE"
_SHOWN: Final = 8


def judge_accelerators(
    found: AcceleratorsFacts, engine_cuda: CudaVersion | None
) -> tuple[Check, ...]:
    """One check for each thing that accelerators depend on.

    Args:
        found: What the probes found.
        engine_cuda: CUDA of the engine's libraries; None where it is not known.
    """
    return (
        _driver(found, engine_cuda),
        _known(found, engine_cuda),
        _fabric(found),
        _channels(found),
        _ports(found),
    )


def _driver(found: AcceleratorsFacts, engine_cuda: CudaVersion | None) -> Check:
    driver = f"driver {found.driver_version or 'of an unknown version'}"
    if found.driver_cuda is None or engine_cuda is None:
        what = "newest CUDA" if found.driver_cuda is None else "CUDA of the engine"
        sentence = f"The {what} is not known ({driver}), so the two were not compared."
        return Check("driver", "warning", sentence, "Make sure that the driver is recent enough.")
    serves = f"{driver} serves CUDA {_text(found.driver_cuda)}"
    wants = f"the engine's libraries are of CUDA {_text(engine_cuda)}"
    if found.driver_cuda[0] < engine_cuda[0]:
        if found.compatibility_library:
            sentence = f"The {serves}, and {wants}: only the compatibility library bridges that."
            return Check("driver", "warning", sentence, "Prefer a newer driver.")
        return Check(
            "driver",
            "problem",
            f"The {serves}, and {wants}: the engine will not start.",
            "Install a newer driver, or the cuda-compat package of that CUDA.",
        )
    if found.driver_cuda < engine_cuda:
        sentence = f"The {serves}, and {wants}: kernels that are compiled when used may fail."
        return Check("driver", "warning", sentence, "Install a newer driver.")
    return Check("driver", "ok", f"The {serves}; {wants}.", "")


def _known(found: AcceleratorsFacts, engine_cuda: CudaVersion | None) -> Check:
    name = "accelerator"
    for one in found.accelerators:
        oldest = _oldest_cuda(one.compute_capability)
        if engine_cuda is not None and oldest is not None and engine_cuda < oldest:
            return Check(
                name,
                "problem",
                f"{one.name} needs CUDA {_text(oldest)} or newer, and the engine's libraries are "
                f"of CUDA {_text(engine_cuda)}.",
                "Install an engine that is built for a newer CUDA.",
            )
    kinds = sorted({one.name for one in found.accelerators})
    if len(kinds) > 1:
        sentence = f"The accelerators differ: {', '.join(kinds)}."
        return Check(name, "warning", sentence, "Choose equal ones with CUDA_VISIBLE_DEVICES.")
    count = plural(len(found.accelerators), "accelerator")
    return Check(name, "ok", f"{count} can be used: {kinds[0]}.", "")


def _fabric(found: AcceleratorsFacts) -> Check:
    several = len(found.accelerators) > 1
    behind = [one for one in found.accelerators if one.fabric in ("not started", "in progress")]
    if behind and several:
        return Check(
            "fabric",
            "problem",
            f"The NVLink fabric is not ready on {_some(behind, found)} (state: "
            f"{behind[0].fabric}); exchanges between them would hang or fail.",
            "Wait until the fabric manager is done, or restart it; see `nvidia-smi -q`.",
        )
    ill = [one for one in found.accelerators if one.fabric_healthy is False]
    if ill and several:
        return Check(
            "fabric",
            "problem",
            f"The NVLink fabric reports ill health of {_some(ill, found)}.",
            "Look at `nvidia-smi -q` under Fabric, and at the log of the fabric manager.",
        )
    clusters = {one.cluster for one in found.accelerators}
    if len(clusters) > 1:
        return Check(
            "fabric",
            "problem",
            f"The accelerators of this node are in {len(clusters)} fabric clusters.",
            "Have the fabric's partitions repaired; one node belongs to one cluster.",
        )
    unread = [one for one in found.accelerators if one.fabric == "unread"]
    if unread and several:
        sentence = "The driver does not say whether the NVLink fabric is ready."
        return Check("fabric", "warning", sentence, "Look at `nvidia-smi topo -m`.")
    sentence = "The NVLink fabric is ready." if several else "One accelerator needs no fabric."
    return Check("fabric", "ok", sentence, "")


def _channels(found: AcceleratorsFacts) -> Check:
    spans_nodes = any(one.cluster is not None for one in found.accelerators)
    if spans_nodes and not found.imex_channels:
        return Check(
            "imex",
            "warning",
            "The accelerators belong to an NVLink domain of several nodes, and no IMEX channel is "
            "visible: multicast and memory of other nodes cannot be used.",
            "Start nvidia-imex, and give the container /dev/nvidia-caps-imex-channels.",
        )
    if not spans_nodes:
        return Check("imex", "ok", "No NVLink domain of several nodes, so no channel is due.", "")
    return Check("imex", "ok", f"{plural(found.imex_channels, 'IMEX channel')} can be seen.", "")


def _ports(found: AcceleratorsFacts) -> Check:
    down = [port.name for port in found.ports if port.state != _PORT_UP]
    if down:
        sentence = f"{plural(len(down), 'network port')} of {len(found.ports)} not active: "
        return Check(
            "network",
            "warning",
            sentence + ", ".join(down[:_SHOWN]) + ("." if len(down) <= _SHOWN else ", and more."),
            "A run over several nodes needs them; name the good ones in NCCL_IB_HCA.",
        )
    if not found.ports:
        sentence = "No network adapter for exchanges between nodes; a run on this node needs none."
        return Check("network", "ok", sentence, "")
    return Check("network", "ok", f"{plural(len(found.ports), 'network port')} active.", "")


def _oldest_cuda(capability: CudaVersion | None) -> CudaVersion | None:
    if capability is None:
        return None
    return next((cuda for known, cuda in _OLDEST_CUDA if capability >= known), None)


def _some(some: list[AcceleratorFacts], found: AcceleratorsFacts) -> str:
    return f"{len(some)} of {len(found.accelerators)} accelerators"


def _text(version: CudaVersion) -> str:
    return "{}.{}".format(*version)

"""Peaks of the GPUs we speak of: their only home.

Figures are the vendor's, dense (no sparsity), for one GPU; they are ceilings for arithmetic on
paper, not measurements. What a machine really reaches is in benchmarks/LOG.md.
"""

from dataclasses import dataclass

__all__ = ["GPUS", "Gpu", "gpu_named"]


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU."""

    name: str
    architecture: str
    """Compilation target of the kernels."""
    memory_gb_per_s: float
    """Peak device-memory bandwidth, decimal gigabytes."""
    bf16_tflop_per_s: float
    fp8_tflop_per_s: float
    fp4_tflop_per_s: float | None
    """None where the tensor cores have no FP4."""
    source: str


GPUS = (
    Gpu("H100", "sm_90a", 3350, 989.4, 1978.9, None, "NVIDIA H100 datasheet, SXM column"),
    Gpu("H200", "sm_90a", 4800, 989.4, 1978.9, None, "NVIDIA H200 datasheet, SXM column"),
    Gpu("B200", "sm_100a", 8000, 2250, 4500, 9000, "NVIDIA HGX B200 figures divided by eight"),
    Gpu("GB200", "sm_100a", 8000, 2500, 5000, 10000, "NVIDIA GB200 NVL72 figures divided by 72"),
    Gpu("B300", "sm_103a", 8000, 2250, 4500, 13500, "NVIDIA HGX B300 figures divided by eight"),
    Gpu("GB300", "sm_103a", 8000, 2500, 5000, 15000, "NVIDIA GB300 NVL72 figures divided by 72"),
)
"""All of them."""


def gpu_named(device_name: str) -> Gpu:
    """Find the GPU in a driver's device name, for example 'NVIDIA H200'.

    Raises:
        ValueError: no known GPU is named there.
    """
    words = device_name.replace("-", " ").split()
    for gpu in GPUS:
        if gpu.name in words:
            return gpu
    known = ", ".join(gpu.name for gpu in GPUS)
    raise ValueError(
        f"expected one of {known}, found '{device_name}': add its peaks to hardware.py"
    )

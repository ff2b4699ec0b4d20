"""Launch of the SiTU activation: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.situ.config import SituConfig

__all__ = ["activate_rows", "compile_variant", "config_for", "variants"]

_VECTOR_WIDTH = 8


def activate_rows(gate_up: Tensor, out: Tensor, *, config: SituConfig) -> None:
    """Apply SiTU.

    Args:
        gate_up: BF16 [M, 2 I], gate columns before up columns, row stride a multiple of 8.
        out: BF16 [M, I], I a multiple of 8, row stride a multiple of 8, written.
        config: variant to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, width = out.shape if out.ndim == 2 else (0, 0)  # noqa: PLR2004
    check = InputCheck("situ")
    check.rows(rows)
    bf16 = torch.bfloat16
    check.tensor(
        "gate_up", gate_up, dtype=bf16, shape=[rows, 2 * width], stride_multiple=_VECTOR_WIDTH
    )
    check.tensor("out", out, dtype=bf16, shape=[rows, width], stride_multiple=_VECTOR_WIDTH)
    check.require(
        width > 0 and width % _VECTOR_WIDTH == 0,
        f"out: expected a positive multiple of {_VECTOR_WIDTH} columns, found {width}: pad the "
        "projection's rows",
    )
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(config, architecture)(
        device_pointer(gate_up),
        device_pointer(out),
        gate_up.stride(0),
        out.stride(0),
        rows,
        width // _VECTOR_WIDTH,
        current_stream(),
    )


@cache
def compile_variant(config: SituConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.situ.kernel import SituKernel  # noqa: PLC0415

    arguments = placeholders([torch.bfloat16, torch.bfloat16], 2, 2)
    return compile_kernel(SituKernel(config), arguments, architecture)


def config_for(dims: K3Dims) -> SituConfig:
    """The one variant a model needs."""
    return SituConfig(beta=dims.situ_beta, linear_beta=dims.situ_linear_beta)


def variants(dims: K3Dims) -> dict[str, SituConfig]:
    """The one variant a model needs."""
    return {"any_width": config_for(dims)}

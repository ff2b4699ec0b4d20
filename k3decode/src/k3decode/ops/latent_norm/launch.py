"""Launch of the latent norm: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.latent_norm.config import LatentNormConfig

__all__ = ["compile_variant", "config_for", "normalise_latent", "variants"]

_VECTOR_WIDTH = 8


def normalise_latent(
    summed: Tensor, weight: Tensor, out: Tensor, *, config: LatentNormConfig
) -> None:
    """Apply RMSNorm to the summed latent rows.

    Args:
        summed: BF16 [M, L], the full sum over all ranks, row stride a multiple of 8.
        weight: BF16 [L].
        out: BF16 [M, L], row stride a multiple of 8, written; may be `summed` itself.
        config: variant to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    check = InputCheck("latent_norm")
    check.rows(rows)
    bf16, shape = torch.bfloat16, [rows, config.width]
    check.tensor("summed", summed, dtype=bf16, shape=shape, stride_multiple=_VECTOR_WIDTH)
    check.tensor("weight", weight, dtype=bf16, shape=[config.width], dense_from=0)
    check.tensor("out", out, dtype=bf16, shape=shape, stride_multiple=_VECTOR_WIDTH)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(config, architecture)(
        device_pointer(summed),
        device_pointer(weight),
        device_pointer(out),
        summed.stride(0),
        out.stride(0),
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: LatentNormConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.latent_norm.kernel import LatentNormKernel  # noqa: PLC0415

    arguments = placeholders([torch.bfloat16] * 3, 2, 1)
    return compile_kernel(LatentNormKernel(config), arguments, architecture)


def config_for(dims: K3Dims) -> LatentNormConfig:
    """The one variant a model needs."""
    return LatentNormConfig(width=dims.latent_size, eps=dims.rms_norm_eps)


def variants(dims: K3Dims) -> dict[str, LatentNormConfig]:
    """The one variant a model needs."""
    return {f"{dims.latent_size}_columns": config_for(dims)}

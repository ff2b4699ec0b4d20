"""Launch of the exchange before the latent norm: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.comm.place_check import check_place
from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig

__all__ = ["KIND", "compile_variant", "config_for", "exchange_latent_norm", "variants"]

KIND = 3
_VECTOR_WIDTH = 8
_BF16_BYTES = 2


def exchange_latent_norm(
    own: Tensor, weight: Tensor, out: Tensor, place: Place, *, config: ExchangeLatentNormConfig
) -> None:
    """Sum the expert outputs of all ranks and apply RMSNorm.

    Every rank must launch it for the same place; it waits for all of them on the device.

    Args:
        own: this rank's sum over its part of each expert, BF16 [M, L], row stride a multiple of 8.
        weight: BF16 [L].
        out: BF16 [M, L], row stride a multiple of 8, written; may be `own` itself.
        place: with as many slots as ranks, rows of L columns.
        config: variant to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    check = InputCheck("exchange_latent_norm")
    check.rows(rows)
    bf16, shape = torch.bfloat16, [rows, config.width]
    check.tensor("own", own, dtype=bf16, shape=shape, stride_multiple=_VECTOR_WIDTH)
    check.tensor("weight", weight, dtype=bf16, shape=[config.width], dense_from=0)
    check.tensor("out", out, dtype=bf16, shape=shape, stride_multiple=_VECTOR_WIDTH)
    check.require(
        place.ranks == config.ranks, f"place: expected {config.ranks} ranks, found {place.ranks}"
    )
    check_place(check, place, rows=rows, words=config.width // 2, slots=config.ranks)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    word = place.words.element_size()
    compile_variant(config, architecture)(
        device_pointer(own),
        device_pointer(weight),
        device_pointer(out),
        device_pointer(place.words),
        device_pointer(place.peers),
        device_pointer(place.error),
        out.stride(0),
        own.stride(0) * _BF16_BYTES,
        place.words.stride(0) * word,
        place.words.stride(1) * word,
        place.code(KIND),
        place.deadline,
        place.rank,
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: ExchangeLatentNormConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.exchange_latent_norm.kernel import (  # noqa: PLC0415
        ExchangeLatentNormKernel,
    )

    pointers = [torch.bfloat16] * 3 + [torch.int32, torch.int64, torch.int64]
    return compile_kernel(
        ExchangeLatentNormKernel(config), placeholders(pointers, 6, 2), architecture
    )


def config_for(dims: K3Dims, ranks: int) -> ExchangeLatentNormConfig:
    """The variant of so many ranks."""
    return ExchangeLatentNormConfig(width=dims.latent_size, eps=dims.rms_norm_eps, ranks=ranks)


def variants(dims: K3Dims) -> dict[str, ExchangeLatentNormConfig]:
    """Those of 8 and of 16 ranks."""
    return {f"{dims.latent_size}_columns_of_{n}": config_for(dims, n) for n in (8, 16)}

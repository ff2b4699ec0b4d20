"""Launch of the exchange in front of the experts: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.comm.place_check import check_place
from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.exchange_route.config import ExchangeRouteConfig

__all__ = ["KIND", "compile_variant", "config_for", "exchange_route", "variants"]

KIND = 4
_VECTOR_WIDTH = 8
_FP32_VECTOR = 4
_BF16_BYTES = 2
_FP32_BYTES = 4


def exchange_route(  # noqa: PLR0917
    own_logits: Tensor,
    own_row: Tensor,
    bias: Tensor,
    logits: Tensor,
    experts: Tensor,
    weights: Tensor,
    out: Tensor,
    place: Place,
    *,
    config: ExchangeRouteConfig,
) -> None:
    """Gather what all ranks have in front of the experts, and choose experts.

    Every rank must launch it for the same place; it waits for all of them on the device.

    Args:
        own_logits: FP32 [M, E / ranks], row stride a multiple of 4, free of NaN.
        own_row: this rank's columns of each part side by side, BF16, row stride a multiple of 8.
        bias: FP32 [E], finite; moves the selection and never the weights.
        logits: FP32 [M, E], any row stride, written: of all ranks.
        experts: int32 [M, k], dense, written: best first, equal scores to the lower id.
        weights: FP32 [M, k], dense, written: renormalised scores of the chosen.
        out: parts of all ranks side by side, BF16, row stride a multiple of 8, written.
        place: with one slot, rows of `config.row_words` words.
        config: variant to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    c, rows = config, out.shape[0] if out.ndim else 0
    bf16, fp32 = torch.bfloat16, torch.float32
    check = InputCheck("exchange_route")
    check.rows(rows)
    for name, tensor, width in (
        ("own_row", own_row, c.width // c.ranks),
        ("out", out, c.width),
    ):
        shape = [rows, width]
        check.tensor(name, tensor, dtype=bf16, shape=shape, stride_multiple=_VECTOR_WIDTH)
    shape = [rows, c.logit_share]
    check.tensor("own_logits", own_logits, dtype=fp32, shape=shape, stride_multiple=_FP32_VECTOR)
    check.tensor("bias", bias, dtype=fp32, shape=[c.num_experts], dense_from=0)
    check.tensor("logits", logits, dtype=fp32, shape=[rows, c.num_experts])
    choices = [rows, c.experts_per_token]
    check.tensor("experts", experts, dtype=torch.int32, shape=choices, dense_from=0)
    check.tensor("weights", weights, dtype=fp32, shape=choices, dense_from=0)
    check.require(place.ranks == c.ranks, f"place: expected {c.ranks} ranks, found {place.ranks}")
    check_place(check, place, rows=rows, words=c.row_words, slots=1)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    tensors = (own_logits, own_row, bias, logits, experts, weights, out)
    compile_variant(config, architecture)(
        *(device_pointer(tensor) for tensor in tensors),
        device_pointer(place.words),
        device_pointer(place.peers),
        device_pointer(place.error),
        logits.stride(0),
        own_logits.stride(0) * _FP32_BYTES,
        own_row.stride(0) * _BF16_BYTES,
        out.stride(0) * _BF16_BYTES,
        place.words.stride(1) * place.words.element_size(),
        place.code(KIND),
        place.deadline,
        place.rank,
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: ExchangeRouteConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.exchange_route.kernel import ExchangeRouteKernel  # noqa: PLC0415

    bf16, fp32, int32, int64 = torch.bfloat16, torch.float32, torch.int32, torch.int64
    pointers = [fp32, bf16, fp32, fp32, int32, fp32, bf16, int32, int64, int64]
    return compile_kernel(ExchangeRouteKernel(config), placeholders(pointers, 7, 2), architecture)


def config_for(dims: K3Dims, ranks: int, shared: int) -> ExchangeRouteConfig:
    """The variant of so many ranks; `shared` is the shared expert's inner width on all of them."""
    return ExchangeRouteConfig(
        num_experts=dims.num_experts,
        experts_per_token=dims.num_experts_per_token,
        scaling_factor=dims.routed_scaling_factor,
        ranks=ranks,
        parts=(dims.latent_size, shared),
    )


def variants(dims: K3Dims) -> dict[str, ExchangeRouteConfig]:
    """Those of 8 and of 16 ranks."""
    shared = dims.shared_intermediate_size
    return {f"of_{ranks}_ranks": config_for(dims, ranks, shared) for ranks in (8, 16)}

"""Launch of the exchange before AttnRes: check the inputs, compile the variant once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.comm.place_check import check_place
from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.attn_res.config import VECTOR_WIDTH
from k3decode.ops.attn_res.launch import check_blocks, check_weights
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig

__all__ = ["GATHER_KIND", "SUM_KIND", "compile_variant", "exchange_attn_res", "variants"]

SUM_KIND = 1
GATHER_KIND = 2
_BF16_BYTES = 2


def exchange_attn_res(  # noqa: PLR0917
    prefix: Tensor,
    own: Tensor,
    blocks: Tensor,
    direction: Tensor,
    output_norm: Tensor | None,
    out: Tensor,
    place: Place,
    *,
    num_blocks: int,
    write_block: int | None,
    reset: bool,
    eps: float,
) -> None:
    """Exchange a branch output with all ranks, add it to the prefix, mix and normalise.

    Every rank must launch it for the same place; it waits for all of them on the device.

    Args:
        prefix: BF16 [M, D], row stride a multiple of 8, updated in place.
        own: what this rank brings, BF16, row stride a multiple of 8: [M, D] of a sum, or its
            [M, D / ranks] columns of a gather.
        blocks: block store, BF16 [S, M, D], two strides that are multiples of 8.
        direction: FP32 [D], source norm times query row.
        output_norm: BF16 [D], or None for a mixture that is not normalised.
        out: BF16 [M, D], written.
        place: with as many slots as ranks for a sum, or with one for a gather; rows of D columns.
        num_blocks: finished blocks that are sources, 0 to S.
        write_block: block that receives the updated prefix; not a source of this call.
        reset: the branch output replaces the prefix.
        eps: of both norms.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    check = InputCheck("exchange_attn_res")
    _check_rows(check, prefix, own, out, place)
    check_blocks(check, blocks, out, num_blocks=num_blocks, write_block=write_block)
    check_weights(check, direction, output_norm, out)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    gathers = _gathers(place)
    config = ExchangeAttnResConfig(
        hidden_size=out.shape[1],
        blocks=num_blocks,
        has_pending=True,
        write_block=write_block,
        reset=reset,
        output_norm=output_norm is not None,
        eps=eps,
        ranks=place.ranks,
        gathers=gathers,
    )
    word = place.words.element_size()
    compile_variant(config, architecture)(
        *(device_pointer(one) for one in (prefix, own, blocks, direction)),
        device_pointer(out if output_norm is None else output_norm),
        *(device_pointer(one) for one in (out, place.words, place.peers, place.error)),
        prefix.stride(0),
        blocks.stride(1),
        blocks.stride(0),
        out.stride(0),
        own.stride(0) * _BF16_BYTES,
        place.words.stride(0) * word,
        place.words.stride(1) * word,
        place.code(GATHER_KIND if gathers else SUM_KIND),
        place.deadline,
        place.rank,
        out.shape[0],
        current_stream(),
    )


def _gathers(place: Place) -> bool:
    """Whether columns are gathered; else there is a slot for each rank."""
    return bool(place.words.shape[0] == 1)


def _check_rows(check: InputCheck, prefix: Tensor, own: Tensor, out: Tensor, place: Place) -> None:
    rows, width = (out.shape[0], out.shape[1]) if out.ndim == 2 else (0, 0)  # noqa: PLR2004
    check.rows(rows)
    slots, own_width = (1, width // place.ranks) if _gathers(place) else (place.ranks, width)
    check_place(check, place, rows=rows, words=width // 2, slots=slots)
    shapes = {"out": [rows, width], "prefix": [rows, width], "own": [rows, own_width]}
    for (name, shape), tensor in zip(shapes.items(), (out, prefix, own), strict=True):
        check.tensor(name, tensor, dtype=torch.bfloat16, shape=shape, stride_multiple=VECTOR_WIDTH)


@cache
def compile_variant(config: ExchangeAttnResConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.exchange_attn_res.kernel import ExchangeAttnResKernel  # noqa: PLC0415

    bf16 = torch.bfloat16
    pointers = [bf16, bf16, bf16, torch.float32, bf16, bf16, torch.int32, torch.int64, torch.int64]
    return compile_kernel(ExchangeAttnResKernel(config), placeholders(pointers, 9, 2), architecture)


def variants(dims: K3Dims) -> dict[str, ExchangeAttnResConfig]:
    """Every variant that steps of 8 and of 16 ranks need, by name.

    Attention outputs are summed, outputs of MoE are gathered, and that of the dense layer, behind
    which stands a layer with one block, is summed.
    """
    found = {}
    last = dims.num_residual_blocks
    for ranks in (8, 16):

        def config(
            blocks: int, *, ranks: int = ranks, gathers: bool, **choices: Any
        ) -> ExchangeAttnResConfig:
            chosen = {"write_block": None, "reset": False, "output_norm": True, **choices}
            return ExchangeAttnResConfig(
                hidden_size=dims.hidden_size,
                blocks=blocks,
                has_pending=True,
                eps=dims.rms_norm_eps,
                ranks=ranks,
                gathers=gathers,
                **chosen,
            )

        for blocks in range(1, last + 1):
            found[f"sum_of_{ranks}_add_{blocks}"] = config(blocks, gathers=False)
            found[f"sum_of_{ranks}_reset_{blocks}"] = config(blocks, gathers=False, reset=True)
            found[f"gather_of_{ranks}_add_{blocks}"] = config(blocks, gathers=True)
            if blocks < last:
                name = f"gather_of_{ranks}_write_{blocks}"
                found[name] = config(blocks, gathers=True, write_block=blocks)
    return found

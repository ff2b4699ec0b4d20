"""Launch of AttnRes: check the inputs, compile the variant once, launch."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.attn_res.config import VECTOR_WIDTH, AttnResConfig

__all__ = ["attn_res", "check_blocks", "check_weights", "compile_variant", "variants"]


def attn_res(  # noqa: PLR0917
    prefix: Tensor,
    pending: Tensor | None,
    blocks: Tensor,
    direction: Tensor,
    output_norm: Tensor | None,
    out: Tensor,
    *,
    num_blocks: int,
    write_block: int | None,
    reset: bool,
    eps: float,
) -> None:
    """Update the prefix, mix blocks and prefix, normalise.

    Args:
        prefix: BF16 [M, D], row stride a multiple of 8; updated in place if there is `pending`.
        pending: branch output, BF16 [M, D], or None.
        blocks: block store, BF16 [S, M, D], two strides that are multiples of 8.
        direction: FP32 [D], source norm times query row.
        output_norm: BF16 [D], or None for a mixture that is not normalised.
        out: BF16 [M, D], written.
        num_blocks: finished blocks that are sources, 0 to S.
        write_block: block that receives the updated prefix; not a source of this call.
        reset: the branch output replaces the prefix.
        eps: of both norms.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, width = out.shape if out.ndim == 2 else (0, 0)  # noqa: PLR2004
    config = partial(
        AttnResConfig,
        blocks=num_blocks,
        has_pending=pending is not None,
        write_block=write_block,
        reset=reset,
        output_norm=output_norm is not None,
        eps=eps,
    )
    check = InputCheck("attn_res")
    _check_rows(check, {"out": out, "prefix": prefix, "pending": pending})
    check_blocks(check, blocks, out, num_blocks=num_blocks, write_block=write_block)
    check_weights(check, direction, output_norm, out)
    check.require(
        pending is not None or not reset, "reset: expected a pending branch output, found None"
    )
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    added = prefix if pending is None else pending
    compile_variant(config(hidden_size=width), architecture)(
        device_pointer(prefix),
        device_pointer(added),
        device_pointer(blocks),
        device_pointer(direction),
        device_pointer(out if output_norm is None else output_norm),
        device_pointer(out),
        prefix.stride(0),
        added.stride(0),
        blocks.stride(1),
        blocks.stride(0),
        out.stride(0),
        rows,
        current_stream(),
    )


def _check_rows(check: InputCheck, rows: Mapping[str, Tensor | None]) -> None:
    """All like the output."""
    shape = list(rows["out"].shape) if rows["out"] is not None else []
    check.rows(shape[0] if shape else 0)
    for name, tensor in rows.items():
        if tensor is not None:
            check.tensor(
                name, tensor, dtype=torch.bfloat16, shape=shape, stride_multiple=VECTOR_WIDTH
            )


def check_blocks(
    check: InputCheck, blocks: Tensor, out: Tensor, *, num_blocks: int, write_block: int | None
) -> None:
    """Check a block store against the output [M, D] and the blocks of a call."""
    check.tensor(
        "blocks",
        blocks,
        dtype=torch.bfloat16,
        shape=[None, *out.shape],
        dense_from=2,
        stride_multiple=VECTOR_WIDTH,
    )
    store = blocks.shape[0] if blocks.ndim else 0
    check.require(
        0 <= num_blocks <= store, f"num_blocks: expected 0 to {store}, found {num_blocks}"
    )
    check.require(
        write_block is None or num_blocks <= write_block < store,
        f"write_block: expected None or {num_blocks} to {store - 1}, found {write_block}",
    )


def check_weights(
    check: InputCheck, direction: Tensor, output_norm: Tensor | None, out: Tensor
) -> None:
    """Check the weights of a reading point against the output [M, D]."""
    shape = list(out.shape[-1:])
    check.tensor("direction", direction, dtype=torch.float32, shape=shape, dense_from=0)
    if output_norm is not None:
        check.tensor("output_norm", output_norm, dtype=out.dtype, shape=shape, dense_from=0)


@cache
def compile_variant(config: AttnResConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.attn_res.kernel import AttnResKernel  # noqa: PLC0415

    bf16 = torch.bfloat16
    arguments = placeholders([bf16, bf16, bf16, torch.float32, bf16, bf16], 5, 1)
    return compile_kernel(AttnResKernel(config), arguments, architecture)


def variants(dims: K3Dims) -> dict[str, AttnResConfig]:
    """Every variant one pass needs, by name."""

    def config(blocks: int, **choices: Any) -> AttnResConfig:
        chosen = {
            "has_pending": True,
            "write_block": None,
            "reset": False,
            "output_norm": True,
            **choices,
        }
        return AttnResConfig(
            hidden_size=dims.hidden_size, blocks=blocks, eps=dims.rms_norm_eps, **chosen
        )

    last = dims.num_residual_blocks
    found = {"first": config(0, has_pending=False, write_block=0)}
    for blocks in range(1, last + 1):
        found[f"add_{blocks}"] = config(blocks)
        found[f"reset_{blocks}"] = config(blocks, reset=True)
        if blocks < last:
            found[f"write_{blocks}"] = config(blocks, write_block=blocks)
    found[f"final_{last}"] = config(last, output_norm=False)
    return found

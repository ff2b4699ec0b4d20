"""Expert weights as the kernels read them: a checkpoint's bytes in other places, in plain torch.

The order within a chunk of some rows and 64 columns is that of `mxfp4_blocks`. Here: which rows
make a chunk. One of the first matrix has gate rows and as many of their up rows, so that one CTA
has both values that an activation needs; one of the second has neighbouring output rows.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import (
    BLOCK_ROWS,
    CHUNK_BYTES,
    CHUNK_GROUPS,
    ROW_CHUNK_BYTES,
    ROW_CHUNK_ROWS,
    pack_chunks,
    pack_row_chunks,
    unpack_chunks,
    unpack_row_chunks,
)

__all__ = ["PackedExperts", "WeightLayout", "pack_experts", "unpack_down", "unpack_gate_up"]

WeightLayout = Literal["warp_blocks", "thread_rows"]
"""Blocks of 32 rows for the warps of Hopper's kernel; rows of 128 threads for Blackwell's."""

_CHUNK_COLUMNS = CHUNK_GROUPS * MXFP4_GROUP
_CHUNK_ROWS: dict[WeightLayout, int] = {"warp_blocks": BLOCK_ROWS, "thread_rows": ROW_CHUNK_ROWS}
_WIDE_SCALE = 128
# Experts reordered at a time, so that the unpacked bits of all of them never stand in memory.
_EXPERTS_AT_A_TIME = 16


@dataclass(frozen=True)
class PackedExperts:
    """Weights of E experts of inner width I on a latent row of L columns, all uint8 and dense."""

    gate_up: Tensor
    """[E, I / 16, L / 64, 1088], a chunk of 16 gate rows and their up rows; or, of 64 and 64,
    [E, I / 64, L / 64, 4352]."""
    down: Tensor
    """[E, L / 32, I / 64, 1088] or [E, L / 128, I / 64, 4352]."""
    wide_scales: bool
    """Whether any scale byte is above 127."""
    layout: WeightLayout


def pack_experts(
    w13: Tensor,
    w13_scales: Tensor,
    w2: Tensor,
    w2_scales: Tensor,
    *,
    layout: WeightLayout = "warp_blocks",
) -> PackedExperts:
    """Reorder a checkpoint's expert weights for the kernels.

    Args:
        w13: uint8 [E, 2 I, L / 2], gate rows before up rows, the even column in the low nibble.
        w13_scales: uint8 [E, 2 I, L / 32].
        w2: uint8 [E, L, I / 2].
        w2_scales: uint8 [E, L, I / 32].
        layout: what the GPU's kernels read, see `launch.weight_layout`.

    Returns:
        The same bits in other places, as many bytes, on the same device.

    Raises:
        ValueError: the shapes do not belong together or are no multiples of a block.
    """
    rows = _CHUNK_ROWS[layout]
    experts, latent, inner = _sizes(w13, w13_scales, w2, w2_scales, rows)
    width = CHUNK_BYTES if layout == "warp_blocks" else ROW_CHUNK_BYTES
    pack = pack_chunks if layout == "warp_blocks" else pack_row_chunks
    packed = PackedExperts(
        gate_up=w13.new_empty(experts, 2 * inner // rows, latent // _CHUNK_COLUMNS, width),
        down=w2.new_empty(experts, latent // rows, inner // _CHUNK_COLUMNS, width),
        wide_scales=bool(max(int(w13_scales.max()), int(w2_scales.max())) >= _WIDE_SCALE),
        layout=layout,
    )
    for first in range(0, experts, _EXPERTS_AT_A_TIME):
        some = slice(first, first + _EXPERTS_AT_A_TIME)
        packed.gate_up[some] = pack(
            _paired_rows(w13[some], rows), _paired_rows(w13_scales[some], rows)
        )
        packed.down[some] = pack(
            w2[some].unflatten(1, (-1, rows)), w2_scales[some].unflatten(1, (-1, rows))
        )
    return packed


def unpack_gate_up(packed: PackedExperts, expert: int) -> tuple[Tensor, Tensor]:
    """Bytes [2 I, L / 2] and scales [2 I, L / 32] of one expert as the checkpoint has them."""
    first, second = (
        tiles.unflatten(1, (2, -1)).transpose(0, 1).reshape(-1, tiles.shape[-1])
        for tiles in _unpacked(packed, packed.gate_up[expert])
    )
    return first, second


def unpack_down(packed: PackedExperts, expert: int) -> tuple[Tensor, Tensor]:
    """Bytes [L, I / 2] and scales [L, I / 32] of one expert as the checkpoint has them."""
    first, second = (tiles.flatten(0, 1) for tiles in _unpacked(packed, packed.down[expert]))
    return first, second


def _unpacked(packed: PackedExperts, chunks: Tensor) -> tuple[Tensor, Tensor]:
    return (unpack_chunks if packed.layout == "warp_blocks" else unpack_row_chunks)(chunks)


def _sizes(
    w13: Tensor, w13_scales: Tensor, w2: Tensor, w2_scales: Tensor, rows: int
) -> tuple[int, int, int]:
    experts, latent, half_inner = w2.shape
    inner = 2 * half_inner
    wanted = {
        "w13": (w13, [experts, 2 * inner, latent // 2]),
        "w13_scales": (w13_scales, [experts, 2 * inner, latent // MXFP4_GROUP]),
        "w2_scales": (w2_scales, [experts, latent, inner // MXFP4_GROUP]),
    }
    wrong = [
        f"{name}: expected {shape} as w2 is {list(w2.shape)}, found {list(tensor.shape)}"
        for name, (tensor, shape) in wanted.items()
        if list(tensor.shape) != shape
    ]
    if inner % _CHUNK_COLUMNS or latent % _CHUNK_COLUMNS:
        wrong.append(
            f"expected widths that are multiples of {_CHUNK_COLUMNS}, found {latent}, {inner}"
        )
    if latent % rows or 2 * inner % rows:
        wrong.append(f"expected whole blocks of {rows} rows, found {latent}, {2 * inner}")
    wrong += [
        f"expected torch.uint8, found {tensor.dtype}"
        for tensor in (w13, w13_scales, w2, w2_scales)
        if tensor.dtype != torch.uint8
    ]
    if wrong:
        raise ValueError("; ".join(wrong) + ": pass the bytes as the checkpoint stores them")
    return experts, latent, inner


def _paired_rows(rows: Tensor, block: int) -> Tensor:
    """[E, 2 I, X], gate before up -> [E, 2 I / block, block, X], gate rows and their up rows."""
    return rows.unflatten(1, (2, -1, block // 2)).transpose(1, 2).flatten(2, 3)

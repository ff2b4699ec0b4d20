# mypy: ignore-errors
"""Queries of attention in shared memory, as left operands of a warp's matrix products.

`config` is a configuration of attention; what is read of it is `group_warps`, `depth_steps`,
`cache_format`, `pitch_bytes` and `element_bytes`.
"""

import cutlass
from cutlass import Int32, cute

from k3decode.device.async_copy import COPY_BYTES
from k3decode.device.e4m3 import halves_from_e4m3
from k3decode.device.warp_matrix import PRODUCT_K, load_matrices

__all__ = ["left_operands"]

_QUAD = 4
_MATRIX_ROWS = 8


@cute.jit
def left_operands(config: object, sQuery: cute.Tensor, first: Int32, rQuery: cute.Tensor):
    """Keep this warp's quarter of the columns of 16 queries, from row `first` on."""
    c = config
    lane = cute.arch.lane_idx()
    quarter = cute.arch.warp_idx() % c.group_warps * c.depth_steps
    if cutlass.const_expr(c.cache_format == "bf16"):
        row = first + lane % (2 * _MATRIX_ROWS)
        half = lane // (2 * _MATRIX_ROWS)
        at = sQuery.iterator.toint() + row * c.pitch_bytes + half * COPY_BYTES
        at = at + quarter * (PRODUCT_K * c.element_bytes)
        for step in cutlass.range_constexpr(c.depth_steps):
            loaded = load_matrices(at, step * PRODUCT_K * c.element_bytes)
            for i in cutlass.range_constexpr(4):
                rQuery[4 * step + i] = loaded[i]
    else:
        for step in cutlass.range_constexpr(c.depth_steps):
            for upper in cutlass.range_constexpr(2):
                word = (quarter + step) * _QUAD + lane % _QUAD
                four = sQuery[first + lane // _QUAD + upper * _MATRIX_ROWS, word]
                low, high = halves_from_e4m3(four)
                rQuery[4 * step + upper] = low
                rQuery[4 * step + 2 + upper] = high

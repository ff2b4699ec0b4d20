# mypy: ignore-errors
"""Sums that several groups of warps hold of one row of attention: united, normalised, written.

Registers are those of `warp_matrix`: a thread has sums of heads g and g + 8, and of each head the
largest exponent and the sum of shares. `config` is a configuration of attention; what is read of it
is `groups`, `group_warps`, `group_threads`, `sums`, `column_blocks`, `head_block` and
`cache_format`.
"""

import math

import cutlass
from cutlass import Float32, Int32, cute

from k3decode.device.row_io import read_vector, write_vector
from k3decode.device.warp_matrix import PRODUCT_K, PRODUCT_N

__all__ = ["unite_and_write", "write_sums"]

_QUAD = 4
_MATRIX_ROWS = 8
_LN_2 = math.log(2.0)


@cute.jit
def unite_and_write(
    config: object,
    rSums: cute.Tensor,
    rState: cute.Tensor,
    sHandOver: cute.Tensor,
    gLatents: cute.Tensor,
    gLse: cute.Tensor,
    head_block: Int32,
    heads: Int32,
    value_scale: Float32,
    group: Int32,
):
    """Each group hands its sums to the one before; the first writes what all found."""
    c = config
    tid, _, _ = cute.arch.thread_idx()
    thread = tid % c.group_threads
    _add_lanes(rState)
    for giver in cutlass.range_constexpr(c.groups - 1, 0, -1):
        if group == giver:
            for i in cutlass.range_constexpr(c.sums // 4):
                write_vector(cute.local_tile(rSums, (4,), (i,)), sHandOver[i, thread, None], 0, 4)
            write_vector(rState, sHandOver[c.sums // 4, thread, None], 0, 4)
        cute.arch.sync_threads()
        if group == giver - 1:
            _take_over(config, rSums, rState, sHandOver, thread)
        cute.arch.sync_threads()
    if group == 0:
        _write(config, rSums, rState, gLatents, gLse, head_block, heads, value_scale)


@cute.jit
def write_sums(
    config: object,
    rSums: cute.Tensor,
    rState: cute.Tensor,
    gLatents: cute.Tensor,
    gLse: cute.Tensor,
    head_block: Int32,
    heads: Int32,
    value_scale: Float32,
):
    """Write what one group alone found; without a token a logarithm of minus infinity, and NaN."""
    _add_lanes(rState)
    _write(config, rSums, rState, gLatents, gLse, head_block, heads, value_scale)


@cute.jit
def _add_lanes(rState: cute.Tensor):
    """Sums of shares over the lanes that have the same heads."""
    for head in cutlass.range_constexpr(2):
        total = rState[2 + head]
        for step in cutlass.range_constexpr(2):
            total = total + cute.arch.shuffle_sync_bfly(total, 1 << step)
        rState[2 + head] = total


@cute.jit
def _take_over(
    config: object,
    rSums: cute.Tensor,
    rState: cute.Tensor,
    sHandOver: cute.Tensor,
    thread: Int32,
):
    """Add what another group found; a group without a tile has found nothing."""
    c = config
    other = read_vector(sHandOver[c.sums // 4, thread, None], 0, 4)
    mine = []
    theirs = []
    for head in cutlass.range_constexpr(2):
        highest = cute.arch.fmax(rState[head], other[head])
        my_scale = _power(rState[head], highest)
        their_scale = _power(other[head], highest)
        rState[head] = highest
        rState[2 + head] = rState[2 + head] * my_scale + other[2 + head] * their_scale
        mine.append(my_scale)
        theirs.append(their_scale)
    for i in cutlass.range_constexpr(c.sums // 4):
        rOther = read_vector(sHandOver[i, thread, None], 0, 4)
        for j in cutlass.range_constexpr(4):
            place = 4 * i + j
            rSums[place] = rSums[place] * mine[j // 2] + rOther[j] * theirs[j // 2]


@cute.jit
def _write(
    config: object,
    rSums: cute.Tensor,
    rState: cute.Tensor,
    gLatents: cute.Tensor,
    gLse: cute.Tensor,
    head_block: Int32,
    heads: Int32,
    value_scale: Float32,
):
    """Write the latents of this warp's quarter of the columns, and one warp the logarithms."""
    c = config
    lane = cute.arch.lane_idx()
    warp = cute.arch.warp_idx() % c.group_warps
    first = warp * c.column_blocks * PRODUCT_K
    for upper in cutlass.range_constexpr(2):
        head = head_block * c.head_block + lane // _QUAD + upper * _MATRIX_ROWS
        factor = value_scale / rState[2 + upper]
        if head < heads:
            if warp == 0 and lane % _QUAD == 0:
                gLse[head] = (rState[upper] + cute.math.log2(rState[2 + upper])) * _LN_2
            for columns in cutlass.range_constexpr(c.column_blocks):
                at = 8 * columns + 2 * upper
                column = first + columns * PRODUCT_K
                if cutlass.const_expr(c.cache_format == "bf16"):
                    for half in cutlass.range_constexpr(2):
                        rPair = cute.make_rmem_tensor((2,), Float32)
                        for i in cutlass.range_constexpr(2):
                            rPair[i] = rSums[at + 4 * half + i] * factor
                        place = (column + half * PRODUCT_N) // 2 + lane % _QUAD
                        write_vector(rPair, gLatents[head, None], place, 2)
                else:
                    rFour = cute.make_rmem_tensor((4,), Float32)
                    for i in cutlass.range_constexpr(4):
                        rFour[i] = rSums[at + 4 * (i % 2) + i // 2] * factor
                    write_vector(rFour, gLatents[head, None], column // 4 + lane % _QUAD, 4)


@cute.jit
def _power(value: Float32, highest: Float32) -> Float32:
    """2 ** (value - highest); zero where nothing was found, also where neither found anything."""
    power = cute.math.exp2(value - highest, fastmath=True)
    return power if value > Float32(-math.inf) else Float32(0.0)

# mypy: ignore-errors
# Device code that branches at compile time.
"""Softmax over tokens that are lanes of tensor memory, query rows being its columns.

Four warps share a tile. A column's shares are relative to a reference that all lanes agree on: the
largest score of its first tile, and later ones that exceed it by more than the slack. Everything is
done twice, for the largest score and for the shares, in blocks of 16 columns, so that few registers
hold any number of columns.
"""

import math
import operator

import cutlass
from cutlass import Float32, Int32, cute

from k3decode.device.async_copy import COPY_BYTES
from k3decode.device.e4m3 import halves_from_e4m3, pack_e4m3
from k3decode.device.row_io import WARP_SIZE, read_vector
from k3decode.device.swizzled_places import column_major_place
from k3decode.device.tensor_memory import (
    LOADED_COLUMNS,
    fold_columns,
    load_columns,
    store_columns,
)
from k3decode.device.warp_matrix import pack_pair

__all__ = [
    "agree_on_reference",
    "find_highest",
    "forget_row",
    "make_shares",
    "rescale_sums",
    "write_sums",
    "write_totals",
]

_WARPS = 4
_WORD_COLUMNS = 4
_BARRIER = 1


@cute.jit
def find_highest(
    config: cutlass.Constexpr,
    scores: Int32,
    sHighest: cute.Tensor,
    sLater: cute.Tensor,
    token: Int32,
    left: Int32,
    score_scale: Float32,
):
    """Write this warp's largest exponent of each column.

    Args:
        config: of the kernel.
        scores: address in tensor memory.
        sHighest: written, [4, columns].
        sLater: tokens of the request behind each query row's own.
        token: of the tile, that of this lane; beyond all limits for lanes without one.
        left: tokens of the request from the first of this tile on.
        score_scale: makes exponents of two of products.
    """
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx() % _WARPS
    for block in cutlass.range(config.columns // LOADED_COLUMNS):
        exponents = _exponents(scores, sLater, block, token, left, score_scale)
        highest = fold_columns(exponents, cute.arch.fmax)
        if lane < LOADED_COLUMNS:
            sHighest[warp, block * LOADED_COLUMNS + lane] = highest


@cute.jit
def _exponents(
    scores: Int32,
    sLater: cute.Tensor,
    block: Int32,
    token: Int32,
    left: Int32,
    score_scale: Float32,
):
    """Exponents of two of 16 columns; minus infinity where a query row must not see the token."""
    found = []
    loaded = load_columns(scores + block * LOADED_COLUMNS)
    for four in cutlass.range_constexpr(LOADED_COLUMNS // _WORD_COLUMNS):
        rLater = read_vector(
            sLater, block * (LOADED_COLUMNS // _WORD_COLUMNS) + four, _WORD_COLUMNS
        )
        for i in cutlass.range_constexpr(_WORD_COLUMNS):
            exponent = loaded[_WORD_COLUMNS * four + i] * score_scale
            seen = token + rLater[i] < left
            found.append(exponent if seen else Float32(-math.inf))
    return found


@cute.jit
def agree_on_reference(
    config: cutlass.Constexpr,
    thread: Int32,
    sHighest: cute.Tensor,
    sReference: cute.Tensor,
    sScale: cute.Tensor,
):
    """Raise references that are exceeded by more than the slack.

    Returns:
        Whether any was; `sScale` then is what makes older shares relative to the new ones.
    """
    cute.arch.barrier(barrier_id=_BARRIER, number_of_threads=config.weigh_threads)
    grown = Int32(0)
    if thread < config.columns:
        highest = sHighest[0, thread]
        for warp in cutlass.range_constexpr(1, _WARPS):
            highest = cute.arch.fmax(highest, sHighest[warp, thread])
        before = sReference[thread]
        scale = Float32(1.0)
        if highest > before + config.slack:
            scale = cute.math.exp2(before - highest, fastmath=True)
            sReference[thread] = highest
            grown = Int32(1)
        sScale[thread] = scale
    return cute.arch.inline_ptx(
        "{ .reg .pred mine, any; setp.ne.s32 mine, {$r0}, 0; "
        f"barrier.cta.red.or.pred.aligned any, {_BARRIER}, {config.weigh_threads}, mine; "
        "selp.s32 {$w0}, 1, 0, any; }",
        write_only_types=[Int32],
        read_only_args=[grown],
    )


@cute.jit
def rescale_sums(config: cutlass.Constexpr, sums: Int32, sScale: cute.Tensor):
    """Make this lane's sums of latents relative to the new references."""
    for unit in cutlass.range(config.units):
        for block in cutlass.range(config.columns // LOADED_COLUMNS):
            place = sums + unit * config.columns + block * LOADED_COLUMNS
            found = load_columns(place)
            scales = _vectors(sScale, block)
            store_columns(place, [found[i] * scales[i] for i in range(LOADED_COLUMNS)])


@cute.jit
def _vectors(sValues: cute.Tensor, block: Int32):
    """Sixteen values of shared memory, the same for all lanes."""
    found = []
    for four in cutlass.range_constexpr(LOADED_COLUMNS // _WORD_COLUMNS):
        rFour = read_vector(
            sValues, block * (LOADED_COLUMNS // _WORD_COLUMNS) + four, _WORD_COLUMNS
        )
        found += [rFour[i] for i in range(_WORD_COLUMNS)]
    return found


@cute.jit
def make_shares(
    config: cutlass.Constexpr,
    scores: Int32,
    shares: Int32,
    sReference: cute.Tensor,
    sLater: cute.Tensor,
    rTotals: cute.Tensor,
    token: Int32,
    left: Int32,
    score_scale: Float32,
):
    """Write this lane's shares for the product with latents and add them to its totals.

    Args:
        config: of the kernel.
        scores: address in tensor memory.
        shares: address in shared memory.
        sReference: exponents that shares are relative to.
        sLater: as for `find_highest`.
        rTotals: sums of shares that this lane has seen, [columns].
        token: as for `find_highest`.
        left: as for `find_highest`.
        score_scale: as for `find_highest`.
    """
    for block in cutlass.range_constexpr(config.columns // LOADED_COLUMNS):
        first = block * LOADED_COLUMNS
        exponents = _exponents(scores, sLater, block, token, left, score_scale)
        references = _vectors(sReference, block)
        found = []
        for i in cutlass.range_constexpr(LOADED_COLUMNS):
            # A column that has seen no token yet keeps its shares at zero.
            reference = references[i] if references[i] > Float32(-math.inf) else Float32(0.0)
            share = cute.math.exp2(exponents[i] - reference, fastmath=True)
            rTotals[first + i] = rTotals[first + i] + share
            found.append(share)
        if token < config.tile_tokens:
            _write_shares(config, shares, block, token, found)


@cute.jit
def _write_shares(
    config: cutlass.Constexpr, shares: Int32, block: cutlass.Constexpr, token: Int32, found: list
):
    """Sixteen shares of a token in the format of the product, as one term or as three.

    Of three the last is E5M2, which has room for what is left of small shares.
    """
    tokens, size = config.tile_tokens, config.element_bytes
    if cutlass.const_expr(config.cache_format == "bf16"):
        for half in cutlass.range_constexpr(2):
            words = [
                pack_pair(found[8 * half + 2 * i], found[8 * half + 2 * i + 1], form="bf16")
                for i in range(4)
            ]
            _store_words(shares + column_major_place(tokens, size, block, token, half), words)
    else:
        rest = [share * config.share_scale for share in found]
        term_bytes = config.share_bytes // config.terms
        for term in cutlass.range_constexpr(config.terms):
            fours = [[rest[4 * i + j] for j in range(4)] for i in range(4)]
            final = cutlass.const_expr(term + 1 == config.terms)
            words = [_pack_e5m2(four) if final else pack_e4m3(four) for four in fours]
            place = column_major_place(tokens, size, block, token)
            _store_words(shares + term * term_bytes + place, words)
            if cutlass.const_expr(term + 1 < config.terms):
                rest = _remainders(rest, words)


@cute.jit
def _remainders(values: list, words: list):
    """What is left of sixteen values when their E4M3 is taken away; exact."""
    left = []
    for i in cutlass.range_constexpr(4):
        pairs = halves_from_e4m3(words[i])
        for pair in cutlass.range_constexpr(2):
            kept = _floats_of_halves(pairs[pair])
            left += [values[4 * i + 2 * pair + j] - kept[j] for j in range(2)]
    return left


def _floats_of_halves(pair: Int32) -> tuple:
    """Both FP16 values of a register as FP32."""
    return cute.arch.inline_ptx(
        "{ .reg .b16 low, high; mov.b32 {low, high}, {$r0}; "
        "cvt.f32.f16 {$w0}, low; cvt.f32.f16 {$w1}, high; }",
        write_only_types=[Float32, Float32],
        read_only_args=[pair],
    )


def _pack_e5m2(values: list) -> Int32:
    """Round four values to the nearest E5M2; first lowest."""
    return cute.arch.inline_ptx(
        "{ .reg .b16 low, high; "
        "cvt.rn.satfinite.e5m2x2.f32 low, {$r1}, {$r0}; "
        "cvt.rn.satfinite.e5m2x2.f32 high, {$r3}, {$r2}; "
        "mov.b32 {$w0}, {low, high}; }",
        write_only_types=[Int32],
        read_only_args=values,
    )


def _store_words(address: Int32, words: list) -> None:
    """Write 16 bytes to shared memory."""
    cute.arch.inline_ptx(
        "st.shared.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};",
        read_only_args=[address, *words],
    )


@cute.jit
def forget_row(config: cutlass.Constexpr, keys: Int32, token: Int32, first_slot: Int32):
    """Overwrite the latents of a token that nobody sees with zeros: a share of zero of NaN is NaN.

    `first_slot` has the tile's first unit. Lanes begin at different places of their rows, so that
    they meet different banks.
    """
    zeros = [Int32(0)] * _WORD_COLUMNS
    span_bytes = config.unit_bytes // config.spans
    row_bytes = span_bytes // config.tile_tokens
    slot = first_slot
    for _ in cutlass.range_constexpr(config.units):
        row = keys + slot * config.unit_bytes + token * row_bytes
        for span in cutlass.range_constexpr(config.spans):
            for piece in cutlass.range_constexpr(row_bytes // COPY_BYTES):
                turned = (piece + token) % (row_bytes // COPY_BYTES)
                _store_words(row + span * span_bytes + turned * COPY_BYTES, zeros)
        slot = slot + 1 if slot + 1 < config.latent_slots else Int32(0)


@cute.jit
def write_totals(
    config: cutlass.Constexpr,
    thread: Int32,
    sHighest: cute.Tensor,
    sReference: cute.Tensor,
    sScale: cute.Tensor,
    rTotals: cute.Tensor,
    gLse: cute.Tensor,
    query_rows: Int32,
    first_column: Int32,
    value_scale: Float32,
):
    """Add the totals of all lanes and write logarithms; `sScale` becomes what divides sums.

    `gLse` [query rows] belongs to this request; a row without tokens gets minus infinity.
    """
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx() % _WARPS
    for block in cutlass.range_constexpr(config.columns // LOADED_COLUMNS):
        first = block * LOADED_COLUMNS
        folded = fold_columns([rTotals[first + i] for i in range(LOADED_COLUMNS)], operator.add)
        if lane < LOADED_COLUMNS:
            sHighest[warp, first + lane] = folded
    cute.arch.barrier(barrier_id=_BARRIER, number_of_threads=config.weigh_threads)
    if thread < config.columns:
        total = sHighest[0, thread]
        for other in cutlass.range_constexpr(1, _WARPS):
            total = total + sHighest[other, thread]
        some = total > 0.0
        if first_column + thread < query_rows:
            log = (sReference[thread] + cute.math.log2(total)) * math.log(2.0)
            gLse[first_column + thread] = log if some else Float32(-math.inf)
        factor = value_scale / (total * config.share_scale)
        sScale[thread] = factor if some else Float32(0.0)
    cute.arch.barrier(barrier_id=_BARRIER, number_of_threads=config.weigh_threads)


@cute.jit
def write_sums(
    config: cutlass.Constexpr,
    thread: Int32,
    sums: Int32,
    sScale: cute.Tensor,
    gLatents: cute.Tensor,
    query_rows: Int32,
    first_column: Int32,
):
    """Write this lane's latents of all query rows, [query rows, latent] of this request."""
    for unit in cutlass.range(config.units):
        latent = unit * (_WARPS * WARP_SIZE) + thread
        for block in cutlass.range(config.columns // LOADED_COLUMNS):
            first = block * LOADED_COLUMNS
            found = load_columns(sums + unit * config.columns + first)
            factors = _vectors(sScale, block)
            for i in cutlass.range_constexpr(LOADED_COLUMNS):
                if first_column + first + i < query_rows:
                    gLatents[first_column + first + i, latent] = found[i] * factors[i]

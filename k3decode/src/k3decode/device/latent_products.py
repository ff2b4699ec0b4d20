# mypy: ignore-errors
# CuTe's names for memory spaces.
"""Matrix products of Blackwell for a kernel that attends to latent tiles: scores, and sums.

`config` is `ops.mla_decode_blackwell.config.MlaDecodeBlackwellConfig` everywhere.
"""

import cutlass
from cutlass import Int32, cute
from cutlass.cute.nvgpu import tcgen05

from k3decode.device.latent_barriers import advance
from k3decode.device.split_rows import end_of, row_of
from k3decode.device.tensor_memory import after_barrier

__all__ = ["multiply"]

_UNIT_COLUMNS = 128
# What the multiplying warp remembers: slots and phases of its rings, and tiles so far.
_LATENT, _LATENT_PHASE, _SHARED, _SHARED_PHASE, _VALUE, _SCORED, _SUMMED = range(7)
_PLACE_FIELDS = 7


@cute.jit
def multiply(
    config: cutlass.Constexpr,
    scores: cute.TiledMma,
    values: tuple,
    sKeys: cute.Tensor,
    sShared: cute.Tensor,
    sQuery: cute.Tensor,
    sQueryShared: cute.Tensor,
    sValues: cute.Tensor,
    sShares: tuple,
    memory: cute.Pointer,
    bars: cutlass.Constexpr,
    split,
    requests: Int32,
    first: Int32,
    last: Int32,
):
    """Scores of every tile, and sums of its latents when its shares are there."""
    c = config
    place = cute.make_rmem_tensor((_PLACE_FIELDS,), Int32)
    place.fill(0)
    score_layout = scores.make_fragment_C(
        scores.partition_shape_C((c.tile_tokens, c.columns))
    ).layout
    shape = values[0].partition_shape_C((_UNIT_COLUMNS, c.columns))
    sum_layout = values[0].make_fragment_C(shape).layout
    keys = (
        scores.make_fragment_A(sKeys),
        scores.make_fragment_A(sShared),
        scores.make_fragment_B(sQuery),
        scores.make_fragment_B(sQueryShared),
    )
    latents = values[0].make_fragment_A(sValues)
    shares = [product.make_fragment_B(sOne) for product, sOne in zip(values, sShares, strict=True)]
    row = row_of(split, first)
    tile = first
    phase = Int32(0)
    while row < requests:
        stop = cutlass.min(end_of(split, row), last)
        cute.arch.mbarrier_wait(bars.query_full, phase)
        phase = phase ^ 1
        if cutlass.const_expr(c.ahead):
            _score(c, scores, keys, memory, score_layout, bars, place, tile + 1 == stop)
        for at in cutlass.range(tile, stop):
            if cutlass.const_expr(c.ahead):
                if at + 1 < stop:
                    _score(c, scores, keys, memory, score_layout, bars, place, at + 2 == stop)
            else:
                _score(c, scores, keys, memory, score_layout, bars, place, at + 1 == stop)
            _sum(c, values, (latents, shares), memory, sum_layout, bars, place, at == tile)
        tile = stop
        row = row_of(split, stop) if stop < last else requests


@cute.jit
def _score(
    config: cutlass.Constexpr,
    scores: cute.TiledMma,
    keys: cutlass.Constexpr,
    memory: cute.Pointer,
    layout: cutlass.Constexpr,
    bars: cutlass.Constexpr,
    place: cute.Tensor,
    final: cutlass.Boolean,
):
    """Products of a tile's rows with the queries; `final` is the last tile of a request."""
    c = config
    tKeys, tShared, tQuery, tQueryShared = keys
    scored = place[_SCORED]
    score_set = scored % c.score_sets
    tScores = cute.make_tensor(memory + (c.units + score_set) * c.columns, layout)
    scores.set(tcgen05.Field.ACCUMULATE, False)
    for unit in cutlass.range_constexpr(c.units):
        cute.arch.mbarrier_wait(bars.latent_full + place[_LATENT], place[_LATENT_PHASE])
        if cutlass.const_expr(unit == 0):
            after_barrier()
        for step in cutlass.range_constexpr(_UNIT_COLUMNS // c.depth):
            cute.gemm(
                scores,
                tScores,
                tKeys[None, None, step, place[_LATENT]],
                tQuery[None, None, step, unit],
                tScores,
            )
            scores.set(tcgen05.Field.ACCUMULATE, True)
        advance(place, _LATENT, c.latent_slots)
    slot = place[_SHARED]
    cute.arch.mbarrier_wait(bars.shared_full + slot, place[_SHARED_PHASE])
    for step in cutlass.range_constexpr(c.shared // c.depth):
        cute.gemm(
            scores,
            tScores,
            tShared[None, None, step, slot],
            tQueryShared[None, None, step, 0],
            tScores,
        )
    with cute.arch.elect_one():
        tcgen05.commit(bars.shared_empty + slot)
        tcgen05.commit(bars.score_full + score_set)
    if final:
        with cute.arch.elect_one():
            tcgen05.commit(bars.query_empty)
    advance(place, _SHARED, c.shared_slots)
    place[_SCORED] = scored + 1


@cute.jit
def _sum(
    config: cutlass.Constexpr,
    values: tuple,
    operands: cutlass.Constexpr,
    memory: cute.Pointer,
    layout: cutlass.Constexpr,
    bars: cutlass.Constexpr,
    place: cute.Tensor,
    starts: cutlass.Boolean,
):
    """Latents of a tile weighted with its shares; `starts` forgets older sums."""
    c = config
    tValues, tShares = operands
    summed = place[_SUMMED]
    cute.arch.mbarrier_wait(bars.share_full, summed % 2)
    after_barrier()
    for unit in cutlass.range_constexpr(c.units):
        slot = place[_VALUE]
        tSums = cute.make_tensor(memory + unit * c.columns, layout)
        for term in cutlass.range_constexpr(c.terms):
            # Of several the last has a format of its own.
            kind = cutlass.const_expr(1 if c.terms > 1 and term + 1 == c.terms else 0)
            product = values[kind]
            product.set(tcgen05.Field.ACCUMULATE, True if term else not starts)
            for step in cutlass.range_constexpr(c.tile_tokens // c.depth):
                cute.gemm(
                    product,
                    tSums,
                    tValues[None, None, step, slot],
                    tShares[kind][None, None, step, term],
                    tSums,
                )
                product.set(tcgen05.Field.ACCUMULATE, True)
        with cute.arch.elect_one():
            tcgen05.commit(bars.latent_empty + slot)
        place[_VALUE] = slot + 1 if slot + 1 < c.latent_slots else Int32(0)
    with cute.arch.elect_one():
        tcgen05.commit(bars.value_done)
    place[_SUMMED] = summed + 1

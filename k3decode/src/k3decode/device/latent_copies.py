# mypy: ignore-errors
# CuTe's names for memory spaces.
"""Copies into shared memory for a kernel that attends to latent tiles: cache rows and queries.

`config` is `ops.mla_decode_blackwell.config.MlaDecodeBlackwellConfig` everywhere.
"""

import cutlass
from cutlass import Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync

from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.latent_barriers import advance
from k3decode.device.split_rows import end_of, row_of, start_of, visible_in
from k3decode.device.swizzled_places import row_place

__all__ = ["bring_queries", "bring_tiles"]


@cute.jit
def bring_tiles(
    config: cutlass.Constexpr,
    latent_copy: cute.CopyAtom,
    gLatents: cute.Tensor,
    shared_copy: cute.CopyAtom,
    gShared: cute.Tensor,
    sKeys: cute.Tensor,
    sShared: cute.Tensor,
    bars: cutlass.Constexpr,
    mTable: cute.Tensor,
    split,
    requests: Int32,
    first: Int32,
    last: Int32,
    page_tokens: Int32,
):
    """Ask for every tile of the part as soon as there is room, boxes behind a request not."""
    c = config
    lane = cute.arch.lane_idx()
    sLatentBoxes, gLatentBoxes = _boxes(
        c, latent_copy, gLatents, sKeys, c.span, c.spans, c.latent_slots
    )
    sSharedBoxes, gSharedBoxes = _boxes(
        c, shared_copy, gShared, sShared, c.shared, 1, c.shared_slots
    )
    # Of the shared columns, counted in copies as wide as they are.
    shared_column = c.latent // c.shared
    place = cute.make_rmem_tensor((4,), Int32)
    place.fill(0)
    row = row_of(split, first)
    tile = first
    while row < requests:
        stop = cutlass.min(end_of(split, row), last)
        length = visible_in(split, row)
        token = (tile - start_of(split, row)) * c.tile_tokens
        for _ in cutlass.range(stop - tile):
            mine = token + lane * c.box_tokens
            page, within = Int32(0), Int32(0)
            if lane < c.boxes and mine < length:
                page = mTable[row, mine // page_tokens]
                within = mine % page_tokens // c.box_tokens
            used = cutlass.min((length - token + c.box_tokens - 1) // c.box_tokens, c.boxes)
            pages = [cute.arch.shuffle_sync(page, box) for box in range(c.boxes)]
            withins = [cute.arch.shuffle_sync(within, box) for box in range(c.boxes)]
            for unit in cutlass.range_constexpr(c.units):
                slot, phase = place[0], place[1]
                full = bars.latent_full + slot
                cute.arch.mbarrier_wait(bars.latent_empty + slot, phase ^ 1)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full, used * c.box_bytes * c.spans)
                for box in cutlass.range_constexpr(c.boxes):
                    if box < used:
                        for span in cutlass.range_constexpr(c.spans):
                            column = unit * c.spans + span
                            cute.copy(
                                latent_copy,
                                gLatentBoxes[None, withins[box], column, pages[box]],
                                sLatentBoxes[None, box, span, slot],
                                tma_bar_ptr=full,
                            )
                advance(place, 0, c.latent_slots)
            slot, phase = place[2], place[3]
            full = bars.shared_full + slot
            cute.arch.mbarrier_wait(bars.shared_empty + slot, phase ^ 1)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, used * c.shared_box_bytes)
            for box in cutlass.range_constexpr(c.boxes):
                if box < used:
                    cute.copy(
                        shared_copy,
                        gSharedBoxes[None, withins[box], shared_column, pages[box]],
                        sSharedBoxes[None, box, 0, slot],
                        tma_bar_ptr=full,
                    )
            advance(place, 2, c.shared_slots)
            token = token + c.tile_tokens
        tile = stop
        row = row_of(split, stop) if stop < last else requests


def _boxes(
    config, atom, gTensor: cute.Tensor, sTensor: cute.Tensor, columns: int, spans: int, slots: int
):
    """Cache and ring as the boxes of a bulk copy: in the ring (box, token box, span, slot)."""
    c = config
    span = c.tile_tokens * columns
    layout = cute.make_layout(
        ((c.box_tokens, columns, 1), c.boxes, spans, slots),
        stride=((columns, 1, 0), c.box_tokens * columns, span, span * spans),
    )
    gBoxes = cute.local_tile(gTensor, (c.box_tokens, columns, 1), (None, None, None))
    return cpasync.tma_partition(
        atom,
        0,
        cute.make_layout(1),
        cute.make_tensor(sTensor.iterator, layout),
        cute.group_modes(gBoxes, 0, 3),
    )


@cute.jit
def bring_queries(
    config: cutlass.Constexpr,
    thread: Int32,
    query: Int64,
    query_bytes: Int64,
    sQuery: cute.Tensor,
    sQueryShared: cute.Tensor,
    bars: cutlass.Constexpr,
    split,
    requests: Int32,
    first: Int32,
    last: Int32,
    block: Int32,
    heads: Int32,
    tokens_per_request: Int32,
):
    """Bring a request's queries when the products with the one before are done."""
    c = config
    latents, shared = sQuery.iterator.toint(), sQueryShared.iterator.toint()
    row = row_of(split, first)
    tile = first
    phase = Int32(0)
    while row < requests:
        cute.arch.mbarrier_wait(bars.query_empty, phase ^ 1)
        for copy in cutlass.range(thread, c.columns * c.row_copies, c.ask_threads):
            column, piece = copy // c.row_copies, copy % c.row_copies
            query_row = block * c.columns + column
            used = Int32(0)
            source = query
            if query_row < heads * tokens_per_request:
                token = row * tokens_per_request + query_row // heads
                within = query_row % heads * c.row_bytes + piece * COPY_BYTES
                source = query + Int64(token) * query_bytes + Int64(within)
                used = Int32(COPY_BYTES)
            target = latents + row_place(c.columns, 128, column, piece)
            if piece >= c.latent_copies:
                target = shared + row_place(
                    c.columns, c.shared * c.element_bytes, column, piece - c.latent_copies
                )
            request_copy(target, source, used, (0, 0))
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.fence_view_async_shared()
        cute.arch.mbarrier_arrive(bars.query_full)
        phase = phase ^ 1
        tile = cutlass.min(end_of(split, row), last)
        row = row_of(split, tile) if tile < last else requests

# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of attention over the latent cache: one CTA per part of the line of tiles.

Two groups of four warps take turns with the tiles of a part, each with a ring of tiles of its own,
so one computes while the other waits. Within a group every warp multiplies its quarter of the row
with the queries, the quarters meet in shared memory, every warp works out all shares for itself,
and each attends to its quarter of the latent columns. The heads are the rows of the matrix
products. Cache rows that a row must not see are zeros in shared memory and minus infinity as a
score; they are never read.
"""

import math
from dataclasses import dataclass

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.e4m3 import gather_columns, halves_from_e4m3
from k3decode.device.group_sums import unite_and_write
from k3decode.device.query_operands import left_operands
from k3decode.device.row_io import WARP_SIZE, read_vector, write_vector
from k3decode.device.split_rows import (
    SplitRows,
    end_of,
    row_of,
    split_rows,
    start_of,
    visible_in,
)
from k3decode.device.warp_matrix import PRODUCT_K, PRODUCT_N, load_matrices, pack_pair, product
from k3decode.ops.mla_decode.config import MlaDecodeConfig

__all__ = ["Asking", "MlaDecodeKernel"]

_MANY_ROWS = 1 << 20
# Lanes that hold one row of a product's sums, and the rows of a matrix that is loaded.
_QUAD = 4
_MATRIX_ROWS = 8
_WORD_BYTES = 4
_WORDS_PER_COPY = 4
# What a thread remembers of the tile it asks for next: tile of the line, end of its row, request,
# entry of the table, token of the page, and how many tokens from this one on are seen.
_TILE, _END, _REQUEST, _ENTRY, _WITHIN, _UNSEEN = range(6)
_PLACE_FIELDS = 6


@dataclass
class Asking:
    """What finding the next tile needs."""

    split: SplitRows
    table: cute.Tensor
    cache: Int64
    page_bytes: Int64
    page_tokens: Int32
    step_pages: Int32
    """Whole pages between two tiles of a group."""
    step_rest: Int32
    """Tokens between them that fill no page."""
    tokens_per_request: Int32
    last: Int32
    """End of the part."""
    place: cute.Tensor


class MlaDecodeKernel:
    """Fixes formats and tile sizes at compile time."""

    def __init__(self, config: MlaDecodeConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        query: cute.Pointer,
        cache: cute.Pointer,
        table: cute.Pointer,
        lengths: cute.Pointer,
        latents: cute.Pointer,
        lse: cute.Pointer,
        query_stride: Int64,
        page_bytes: Int64,
        table_stride: Int64,
        rows: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
        stream: cuda.CUstream,
    ):
        """Launch `parts` CTAs per 16 heads.

        `query_stride` counts words of four bytes between rows, `page_bytes` bytes between pages;
        `score_scale` makes exponents of two of products; `value_scale` makes latents of values.
        """
        c = self.config
        words = c.row_bytes // _WORD_BYTES
        self.kernel(
            cute.make_tensor(
                cute.recast_ptr(query, dtype=Int32),
                cute.make_layout(
                    (_MANY_ROWS, heads, words),
                    stride=(cute.assume(query_stride, divby=_WORDS_PER_COPY), words, 1),
                ),
            ),
            cache.toint(),
            cute.make_tensor(
                table,
                cute.make_layout((_MANY_ROWS, _MANY_ROWS), stride=(table_stride, 1)),
            ),
            cute.make_tensor(lengths, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                latents,
                cute.make_layout(
                    (_MANY_ROWS, heads, c.latent),
                    stride=(cute.assume(Int64(heads) * c.latent, divby=c.latent), c.latent, 1),
                ),
            ),
            cute.make_tensor(lse, cute.make_layout((_MANY_ROWS, heads), stride=(Int64(heads), 1))),
            page_bytes,
            rows,
            heads,
            tokens_per_request,
            page_tokens,
            parts,
            score_scale,
            value_scale,
        ).launch(
            grid=[parts, (heads + c.head_block - 1) // c.head_block, 1],
            block=[c.threads, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mQuery: cute.Tensor,
        cache: Int64,
        mTable: cute.Tensor,
        mLengths: cute.Tensor,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        page_bytes: Int64,
        rows: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
    ):
        """One part: all its rows, one after the other, while later tiles are on their way."""
        c = self.config
        part, head_block, _ = cute.arch.block_idx()
        group = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // c.group_warps
        sTiles, sScores, sHandOver = self._shared(group)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        split = split_rows(mLengths, rows, tokens_per_request, c.tile_tokens, c.fewest_tiles, parts)
        first = part * split.quota
        last = cutlass.min(first + split.quota, split.tiles)
        rAsked = cute.make_rmem_tensor((c.query_copies, _WORDS_PER_COPY), Int32)
        rQuery = cute.make_rmem_tensor((4 * c.depth_steps,), Int32)
        rShares = cute.make_rmem_tensor((2 * c.token_blocks,), Int32)
        rSums = cute.make_rmem_tensor((c.sums,), Float32)
        # Largest exponent and sum of shares of heads g and g + 8; the sum is this lane's alone.
        rState = cute.make_rmem_tensor((4,), Float32)

        asking = Asking(
            split=split,
            table=mTable,
            cache=cache,
            page_bytes=page_bytes,
            page_tokens=page_tokens,
            step_pages=c.step_tokens // page_tokens,
            step_rest=c.step_tokens % page_tokens,
            tokens_per_request=tokens_per_request,
            last=last,
            place=cute.make_rmem_tensor((_PLACE_FIELDS,), Int32),
        )
        row = row_of(split, first)
        # Before the tiles: a query asked for behind them would come after them.
        self._ask_query(mQuery, rAsked, row, rows, head_block, heads)
        asking.place[_TILE] = first + group
        self._enter_row(asking)
        source, used = self._place(asking)
        self._advance(asking)
        for ahead in cutlass.range(c.stages - 1, unroll=1):
            self._request(sTiles, source, used, ahead)
            source, used = self._place(asking)
            self._advance(asking)

        tile = first + group
        stage = Int32(0)
        behind = Int32(c.stages - 1)
        while row < rows:
            stop = cutlass.min(end_of(split, row), last)
            self._keep_query(rAsked, rQuery, sHandOver)
            rSums.fill(0.0)
            for head in cutlass.range_constexpr(2):
                rState[head] = Float32(-math.inf)
                rState[2 + head] = Float32(0.0)
            tokens = visible_in(split, row) - (tile - start_of(split, row)) * c.tile_tokens
            begun = tile
            while tile < stop:
                cute.arch.cp_async_wait_group(c.stages - 2)
                self._group_barrier(group)
                quarters = self._multiply_keys(sTiles + stage * c.tile_bytes, rQuery)
                self._send_scores(quarters, sScores)
                # Independent of the scores, so the matrix units need not wait for them.
                if tile > begun:
                    self._add_values(sTiles + behind * c.tile_bytes, rShares, rSums)
                self._group_barrier(group)
                self._request(sTiles, source, used, behind)
                source, used = self._place(asking)
                self._advance(asking)
                self._weigh(quarters, sScores, rShares, rSums, rState, tokens, score_scale)
                tile = tile + c.groups
                tokens = tokens - c.step_tokens
                behind = stage
                stage = stage + 1 if stage + 1 < c.stages else Int32(0)
            if begun < stop:
                self._add_values(sTiles + behind * c.tile_bytes, rShares, rSums)
            following = row_of(split, stop) if stop < last else rows
            self._ask_query(mQuery, rAsked, following, rows, head_block, heads)
            unite_and_write(
                c,
                rSums,
                rState,
                sHandOver,
                mLatents[part + row, None, None],
                mLse[part + row, None],
                head_block,
                heads,
                value_scale,
                group,
            )
            row = following
        cute.arch.cp_async_wait_group(0)

    @cute.jit
    def _shared(self, group: Int32):
        """Shared memory: address of the group's tiles, its scores, and what is handed over."""
        c = self.config
        smem = SmemAllocator()
        sTiles = smem.allocate_tensor(
            cutlass.Uint8, cute.make_layout(c.groups * c.stages * c.tile_bytes), 128
        )
        sScores = smem.allocate_tensor(
            Float32,
            cute.make_layout(
                (c.groups, c.group_warps, c.token_blocks, WARP_SIZE, 4),
                stride=(
                    c.score_bytes // _WORD_BYTES,
                    c.token_blocks * WARP_SIZE * 4,
                    WARP_SIZE * 4,
                    4,
                    1,
                ),
            ),
            16,
        )
        sHandOver = smem.allocate_tensor(
            Float32,
            cute.make_layout(
                (c.sums // 4 + 1, c.group_threads, 4), stride=(c.group_threads * 4, 4, 1)
            ),
            16,
        )
        tiles = sTiles.iterator.toint() + group * (c.stages * c.tile_bytes)
        return tiles, sScores[group, None, None, None, None], sHandOver

    @cute.jit
    def _group_barrier(self, group: Int32):
        """Wait for the other warps of the group."""
        cute.arch.barrier(barrier_id=1 + group, number_of_threads=self.config.group_threads)

    @cute.jit
    def _enter_row(self, asking: Asking):
        """Work out from a tile where this thread's token of it is; it may lie in another row."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        place = asking.place
        row = row_of(asking.split, place[_TILE])
        start = start_of(asking.split, row)
        token = (place[_TILE] - start) * c.tile_tokens
        token = token + tid % c.group_threads // c.threads_per_row
        place[_END] = end_of(asking.split, row)
        place[_REQUEST] = row // asking.tokens_per_request
        place[_ENTRY] = token // asking.page_tokens
        place[_WITHIN] = token % asking.page_tokens
        place[_UNSEEN] = visible_in(asking.split, row) - token

    @cute.jit
    def _advance(self, asking: Asking):
        """Move on to the group's next tile; divisions only where a row ends."""
        c = self.config
        place = asking.place
        place[_TILE] = place[_TILE] + c.groups
        place[_UNSEEN] = place[_UNSEEN] - c.step_tokens
        within = place[_WITHIN] + asking.step_rest
        turned = within >= asking.page_tokens
        place[_WITHIN] = within - asking.page_tokens if turned else within
        entry = place[_ENTRY] + asking.step_pages
        place[_ENTRY] = entry + 1 if turned else entry
        if place[_TILE] >= place[_END] and place[_TILE] < asking.last:
            self._enter_row(asking)

    @cute.jit
    def _place(self, asking: Asking):
        """Where this thread's share of a tile begins, and how many bytes of each copy are used."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        place = asking.place
        page = Int32(0)
        used = Int32(0)
        if place[_TILE] < asking.last and place[_UNSEEN] > 0:
            page = asking.table[place[_REQUEST], place[_ENTRY]]
            used = Int32(COPY_BYTES)
        within = place[_WITHIN] * c.row_bytes + tid % c.threads_per_row * COPY_BYTES
        return asking.cache + Int64(page) * asking.page_bytes + Int64(within), used

    @cute.jit
    def _request(self, tiles: Int32, source: Int64, used: Int32, stage: Int32):
        """Request this thread's share of a tile, as one group of copies."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        thread = tid % c.group_threads
        target = tiles + stage * c.tile_bytes
        target = target + (thread // c.threads_per_row) * c.pitch_bytes
        target = target + (thread % c.threads_per_row) * COPY_BYTES
        for i in cutlass.range_constexpr(c.copies):
            offset = i * c.threads_per_row * COPY_BYTES
            request_copy(target, source, used, (offset, offset))
        cute.arch.cp_async_commit_group()

    @cute.jit
    def _ask_query(
        self,
        mQuery: cute.Tensor,
        rAsked: cute.Tensor,
        row: Int32,
        rows: Int32,
        head_block: Int32,
        heads: Int32,
    ):
        """Request this thread's share of a row's queries; heads that are none are zeros."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        for i in cutlass.range_constexpr(c.query_copies):
            copy = tid + i * c.threads
            head = head_block * c.head_block + copy // c.row_copies
            rOne = cute.make_rmem_tensor((_WORDS_PER_COPY,), Int32)
            rOne.fill(0)
            if row < rows and copy < c.head_block * c.row_copies and head < heads:
                gCopy = cute.local_tile(
                    mQuery[row, head, None], (_WORDS_PER_COPY,), (copy % c.row_copies,)
                )
                cute.autovec_copy(gCopy, rOne)
            for word in cutlass.range_constexpr(_WORDS_PER_COPY):
                rAsked[i, word] = rOne[word]

    @cute.jit
    def _keep_query(self, rAsked: cute.Tensor, rQuery: cute.Tensor, sHandOver: cute.Tensor):
        """Exchange the queries through shared memory; keep this warp's quarter as left operands.

        Until a row is finished nothing is handed over, so the queries may stand there. With E4M3 a
        register holds four columns in their order; which columns meet in a product does not matter
        as long as the cache's do in the same way.
        """
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        words = c.pitch_bytes // _WORD_BYTES
        sQuery = cute.make_tensor(
            cute.recast_ptr(sHandOver.iterator, dtype=Int32),
            cute.make_layout((c.head_block, words), stride=(words, 1)),
        )
        for i in cutlass.range_constexpr(c.query_copies):
            copy = tid + i * c.threads
            rOne = cute.make_rmem_tensor((_WORDS_PER_COPY,), Int32)
            for word in cutlass.range_constexpr(_WORDS_PER_COPY):
                rOne[word] = rAsked[i, word]
            if copy < c.head_block * c.row_copies:
                write_vector(
                    rOne, sQuery[copy // c.row_copies, None], copy % c.row_copies, _WORDS_PER_COPY
                )
        cute.arch.sync_threads()
        left_operands(c, sQuery, Int32(0), rQuery)
        # The groups may finish this row at different times.
        cute.arch.sync_threads()

    @cute.jit
    def _multiply_keys(self, tile: Int32, rQuery: cute.Tensor):
        """Products of the queries with this warp's quarter of the tile's rows."""
        c = self.config
        lane = cute.arch.lane_idx()
        warp = cute.arch.warp_idx() % c.group_warps
        quarter = warp * (c.row_bytes // c.group_warps)
        if cutlass.const_expr(c.cache_format == "bf16"):
            row = (lane // (2 * _MATRIX_ROWS)) * _MATRIX_ROWS + lane % _MATRIX_ROWS
            half = (lane // _MATRIX_ROWS) % 2
            keys = tile + row * c.pitch_bytes + half * COPY_BYTES + quarter
        else:
            keys = tile + lane * c.pitch_bytes + quarter
        # Two chains per block of tokens where there are few blocks: a product waits for its sums.
        chains = 4 // c.token_blocks
        sums = [[Float32(0.0)] * 4 for _ in range(chains * c.token_blocks)]
        for step in cutlass.range_constexpr(c.depth_steps):
            left = tuple(rQuery[4 * step + i] for i in range(4))
            loaded = load_matrices(keys, step * PRODUCT_K * c.element_bytes)
            for block in cutlass.range_constexpr(c.token_blocks):
                if cutlass.const_expr(c.cache_format == "bf16"):
                    right = (loaded[2 * block], loaded[2 * block + 1])
                else:
                    right = halves_from_e4m3(loaded[block])
                place = (step % chains) * c.token_blocks + block
                sums[place] = product(sums[place], left, right, form=c.product_format)
        if cutlass.const_expr(chains == 1):
            return sums
        return [
            [sums[block][i] + sums[c.token_blocks + block][i] for i in range(4)]
            for block in range(c.token_blocks)
        ]

    @cute.jit
    def _send_scores(self, quarters: list, sScores: cute.Tensor):
        """Show the other warps of the group this warp's products."""
        c = self.config
        warp = cute.arch.warp_idx() % c.group_warps
        for block in cutlass.range_constexpr(c.token_blocks):
            rPart = cute.make_rmem_tensor((4,), Float32)
            for i in cutlass.range_constexpr(4):
                rPart[i] = quarters[block][i]
            write_vector(rPart, sScores[warp, block, cute.arch.lane_idx(), None], 0, 4)

    @cute.jit
    def _weigh(
        self,
        quarters: list,
        sScores: cute.Tensor,
        rShares: cute.Tensor,
        rSums: cute.Tensor,
        rState: cute.Tensor,
        left: Int32,
        score_scale: Float32,
    ):
        """Shares relative to the largest exponent so far; older sums are scaled to a new one.

        The first `left` tokens of the tile are seen.
        """
        c = self.config
        exponents = self._exponents(quarters, sScores, left, score_scale)
        shares = []
        scales = []
        grown = cutlass.Boolean(False)
        for head in cutlass.range_constexpr(2):
            mine = [
                exponents[4 * block + 2 * head + i]
                for block in range(c.token_blocks)
                for i in range(2)
            ]
            highest = mine[0]
            for i in cutlass.range_constexpr(1, 2 * c.token_blocks):
                highest = cute.arch.fmax(highest, mine[i])
            for step in cutlass.range_constexpr(2):
                highest = cute.arch.fmax(highest, cute.arch.shuffle_sync_bfly(highest, 1 << step))
            grown = grown | (highest > rState[head])
            highest = cute.arch.fmax(highest, rState[head])
            scale = cute.math.exp2(rState[head] - highest, fastmath=True)
            total = rState[2 + head] * scale
            for i in cutlass.range_constexpr(2 * c.token_blocks):
                share = cute.math.exp2(mine[i] - highest, fastmath=True)
                total = total + share
                shares.append(share)
            rState[head] = highest
            rState[2 + head] = total
            scales.append(scale)
        # Left operands of the products with values: depth, then half of it, then head.
        for block in cutlass.range_constexpr(c.token_blocks):
            for head in cutlass.range_constexpr(2):
                place = 2 * (head * c.token_blocks + block)
                rShares[2 * block + head] = pack_pair(
                    shares[place], shares[place + 1], form=c.product_format
                )
        if cute.arch.vote_any_sync(grown):
            for i in cutlass.range_constexpr(c.sums):
                rSums[i] = rSums[i] * scales[(i // 2) % 2]

    @cute.jit
    def _exponents(self, quarters: list, sScores: cute.Tensor, left: Int32, score_scale: Float32):
        """Exponents of two of all tokens of the tile, from the products of all warps."""
        c = self.config
        found = []
        wholes = self._whole_products(quarters, sScores)
        for block in cutlass.range_constexpr(c.token_blocks):
            column = block * PRODUCT_N + 2 * (cute.arch.lane_idx() % _QUAD)
            for i in cutlass.range_constexpr(4):
                whole = wholes[4 * block + i] * score_scale
                found.append(whole if column + i % 2 < left else Float32(-math.inf))
        return found

    @cute.jit
    def _whole_products(self, quarters: list, sScores: cute.Tensor):
        """Products of all columns, from those of this warp's quarter and of the other warps'."""
        c = self.config
        lane = cute.arch.lane_idx()
        warp = cute.arch.warp_idx() % c.group_warps
        found = []
        for block in cutlass.range_constexpr(c.token_blocks):
            rOthers = [
                read_vector(sScores[(warp + i) % c.group_warps, block, lane, None], 0, 4)
                for i in range(1, c.group_warps)
            ]
            for i in cutlass.range_constexpr(4):
                whole = quarters[block][i]
                for other in cutlass.range_constexpr(c.group_warps - 1):
                    whole = whole + rOthers[other][i]
                found.append(whole)
        return found

    @cute.jit
    def _add_values(self, tile: Int32, rShares: cute.Tensor, rSums: cute.Tensor):
        """Add the tile's latents, weighted with the shares, on this warp's quarter of the columns.

        With E4M3 the even and the odd columns of a block are products of their own.
        """
        c = self.config
        lane = cute.arch.lane_idx()
        warp = cute.arch.warp_idx() % c.group_warps
        quarter = warp * (c.latent * c.element_bytes // c.group_warps)
        if cutlass.const_expr(c.cache_format == "bf16"):
            row = lane % (2 * _MATRIX_ROWS)
            half = lane // (2 * _MATRIX_ROWS)
            values = tile + row * c.pitch_bytes + half * COPY_BYTES + quarter
        else:
            values = tile + lane * c.pitch_bytes + quarter
        for columns in cutlass.range_constexpr(c.column_blocks):
            loaded = load_matrices(values, columns * PRODUCT_K * c.element_bytes, transposed=True)
            for depth in cutlass.range_constexpr(c.token_blocks // 2):
                if cutlass.const_expr(c.cache_format == "bf16"):
                    rights = [(loaded[0], loaded[1]), (loaded[2], loaded[3])]
                else:
                    low = halves_from_e4m3(gather_columns(loaded[2 * depth]))
                    high = halves_from_e4m3(gather_columns(loaded[2 * depth + 1]))
                    rights = [(low[0], high[0]), (low[1], high[1])]
                for half in cutlass.range_constexpr(2):
                    place = 8 * columns + 4 * half
                    found = product(
                        [rSums[place + i] for i in range(4)],
                        tuple(rShares[4 * depth + i] for i in range(4)),
                        rights[half],
                        form=c.product_format,
                    )
                    for i in cutlass.range_constexpr(4):
                        rSums[place + i] = found[i]

# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of attention for requests of several rows: one CTA per part and 32 query rows.

The query rows of a request, its heads times its tokens, read the cache together. Each group of four
warps has 16 of them and multiplies every tile with those; what a group does with a tile is as in
`mla_decode`. The even tiles of a part are asked for by one group, the odd ones by the other.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.group_sums import write_sums
from k3decode.device.query_operands import left_operands
from k3decode.device.row_io import WARP_SIZE, write_vector
from k3decode.device.split_rows import end_of, row_of, split_rows, start_of, visible_in
from k3decode.device.warp_matrix import PRODUCT_N, pack_pair
from k3decode.ops.mla_decode.kernel import Asking, MlaDecodeKernel

__all__ = ["MlaDecodeTogetherKernel"]

_MANY_ROWS = 1 << 20
_QUAD = 4
_MATRIX_ROWS = 8
_WORD_BYTES = 4
_WORDS_PER_COPY = 4
_TILE = 0
_PLACE_FIELDS = 6


class MlaDecodeTogetherKernel(MlaDecodeKernel):
    """Fixes formats and tile sizes at compile time."""

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
        requests: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
        stream: cuda.CUstream,
    ):
        """Launch `parts` CTAs per 32 query rows; arguments as `mla_decode`, of requests."""
        c = self.config
        words = c.row_bytes // _WORD_BYTES
        query_rows = heads * tokens_per_request
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
                table, cute.make_layout((_MANY_ROWS, _MANY_ROWS), stride=(table_stride, 1))
            ),
            cute.make_tensor(lengths, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                latents,
                cute.make_layout(
                    (_MANY_ROWS, query_rows, c.latent),
                    stride=(cute.assume(Int64(query_rows) * c.latent, divby=c.latent), c.latent, 1),
                ),
            ),
            cute.make_tensor(
                lse, cute.make_layout((_MANY_ROWS, query_rows), stride=(Int64(query_rows), 1))
            ),
            page_bytes,
            requests,
            heads,
            tokens_per_request,
            page_tokens,
            parts,
            score_scale,
            value_scale,
        ).launch(
            grid=[parts, (query_rows + c.query_block - 1) // c.query_block, 1],
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
        requests: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
    ):
        """One part: all its requests, one after the other, while later tiles are on their way."""
        c = self.config
        part, block, _ = cute.arch.block_idx()
        group = cute.arch.make_warp_uniform(cute.arch.warp_idx()) // c.group_warps
        sTiles, sScores, sQuery = self._shared(group)
        own_tiles = sTiles + group * (c.stages * c.tile_bytes)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        split = split_rows(mLengths, requests, Int32(1), c.tile_tokens, c.fewest_tiles, parts)
        first = part * split.quota
        last = cutlass.min(first + split.quota, split.tiles)
        rAsked = cute.make_rmem_tensor((c.query_copies, _WORDS_PER_COPY), Int32)
        rQuery = cute.make_rmem_tensor((4 * c.depth_steps,), Int32)
        rShares = cute.make_rmem_tensor((2 * c.token_blocks,), Int32)
        rSums = cute.make_rmem_tensor((c.sums,), Float32)
        # Largest exponent and sum of shares of rows g and g + 8; the sum is this lane's alone.
        rState = cute.make_rmem_tensor((4,), Float32)
        rows_block = block * c.groups + group
        # How many tokens of its request come after a query row's own.
        rLater = cute.make_rmem_tensor((2,), Int32)
        for upper in cutlass.range_constexpr(2):
            place = rows_block * c.head_block + cute.arch.lane_idx() // _QUAD + upper * _MATRIX_ROWS
            rLater[upper] = cutlass.max(tokens_per_request - 1 - place // heads, 0)
        asking = Asking(
            split=split,
            table=mTable,
            cache=cache,
            page_bytes=page_bytes,
            page_tokens=page_tokens,
            step_pages=c.step_tokens // page_tokens,
            step_rest=c.step_tokens % page_tokens,
            tokens_per_request=Int32(1),
            last=last,
            place=cute.make_rmem_tensor((_PLACE_FIELDS,), Int32),
        )
        row = row_of(split, first)
        self._ask_rows(mQuery, rAsked, row, requests, rows_block, heads, tokens_per_request)
        asking.place[_TILE] = first + group
        self._enter_row(asking)
        places = []
        for _ in cutlass.range_constexpr(c.stages - 1):
            places.append(self._place(asking))
            self._advance(asking)
        for ahead in cutlass.range_constexpr(c.stages - 2):
            self._request(own_tiles, places[ahead][0], places[ahead][1], Int32(ahead))
        source, used = places[c.stages - 2]

        tile = first
        # Of the pair of tiles that comes next.
        stage = Int32(0)
        while row < requests:
            stop = cutlass.min(end_of(split, row), last)
            left = visible_in(split, row) - (tile - start_of(split, row)) * c.tile_tokens
            self._keep_rows(rAsked, rQuery, sQuery, group)
            rSums.fill(0.0)
            for upper in cutlass.range_constexpr(2):
                rState[upper] = Float32(-math.inf)
                rState[2 + upper] = Float32(0.0)
            for at in cutlass.range(tile, stop):
                odd = (at - first) % 2
                if odd == 0:
                    cute.arch.cp_async_wait_group(c.stages - 3)
                    # Both tiles are there, and the pair before the last is not needed any more.
                    cute.arch.sync_threads()
                    self._request(own_tiles, source, used, self._stage_before(stage, 2))
                    source, used = self._place(asking)
                    self._advance(asking)
                keys = sTiles + odd * (c.stages * c.tile_bytes) + stage * c.tile_bytes
                quarters = self._multiply_keys(keys, rQuery)
                self._send_scores(quarters, sScores[odd, None, None, None, None])
                if at > tile:
                    self._add_values(self._tile_before(sTiles, stage, odd), rShares, rSums)
                self._group_barrier(group)
                self._weigh_rows(
                    quarters,
                    sScores[odd, None, None, None, None],
                    rShares,
                    rSums,
                    rState,
                    rLater,
                    left,
                    score_scale,
                )
                left = left - c.tile_tokens
                if odd == 1:
                    stage = stage + 1 if stage + 1 < c.stages else Int32(0)
            odd = (stop - first) % 2
            self._add_values(self._tile_before(sTiles, stage, odd), rShares, rSums)
            write_sums(
                c,
                rSums,
                rState,
                mLatents[part + row, None, None],
                mLse[part + row, None],
                rows_block,
                heads * tokens_per_request,
                value_scale,
            )
            tile = stop
            row = row_of(split, stop) if stop < last else requests
            self._ask_rows(mQuery, rAsked, row, requests, rows_block, heads, tokens_per_request)
        cute.arch.cp_async_wait_group(0)

    @cute.jit
    def _stage_before(self, stage: Int32, count: cutlass.Constexpr):
        """Stage of the ring `count` before one."""
        return stage - count if stage >= count else stage + (self.config.stages - count)

    @cute.jit
    def _tile_before(self, tiles: Int32, stage: Int32, odd: Int32):
        """Address of the tile before the even or odd one of the pair at a stage."""
        c = self.config
        even_stage = self._stage_before(stage, 1)
        ring = tiles if odd == 1 else tiles + c.stages * c.tile_bytes
        return ring + (stage if odd == 1 else even_stage) * c.tile_bytes

    @cute.jit
    def _shared(self, group: Int32):
        """Shared memory: address of all tiles, the group's two sets of scores, and queries."""
        c = self.config
        smem = SmemAllocator()
        sTiles = smem.allocate_tensor(
            cutlass.Uint8, cute.make_layout(c.groups * c.stages * c.tile_bytes), 128
        )
        set_words = c.group_warps * c.token_blocks * WARP_SIZE * 4
        sScores = smem.allocate_tensor(
            Float32,
            cute.make_layout(
                (c.groups, 2, c.group_warps, c.token_blocks, WARP_SIZE, 4),
                stride=(
                    2 * set_words,
                    set_words,
                    c.token_blocks * WARP_SIZE * 4,
                    WARP_SIZE * 4,
                    4,
                    1,
                ),
            ),
            16,
        )
        words = c.pitch_bytes // _WORD_BYTES
        sQuery = smem.allocate_tensor(
            Int32, cute.make_layout((c.query_block, words), stride=(words, 1)), 16
        )
        return sTiles.iterator.toint(), sScores[group, None, None, None, None, None], sQuery

    @cute.jit
    def _ask_rows(
        self,
        mQuery: cute.Tensor,
        rAsked: cute.Tensor,
        row: Int32,
        requests: Int32,
        rows_block: Int32,
        heads: Int32,
        tokens_per_request: Int32,
    ):
        """Request this thread's share of its group's queries; rows that are none are zeros."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        for i in cutlass.range_constexpr(c.query_copies):
            copy = tid % c.group_threads + i * c.group_threads
            place = rows_block * c.head_block + copy // c.row_copies
            rOne = cute.make_rmem_tensor((_WORDS_PER_COPY,), Int32)
            rOne.fill(0)
            if (
                row < requests
                and copy < c.head_block * c.row_copies
                and place < heads * tokens_per_request
            ):
                token = row * tokens_per_request + place // heads
                gCopy = cute.local_tile(
                    mQuery[token, place % heads, None], (_WORDS_PER_COPY,), (copy % c.row_copies,)
                )
                cute.autovec_copy(gCopy, rOne)
            for word in cutlass.range_constexpr(_WORDS_PER_COPY):
                rAsked[i, word] = rOne[word]

    @cute.jit
    def _keep_rows(
        self, rAsked: cute.Tensor, rQuery: cute.Tensor, sQuery: cute.Tensor, group: Int32
    ):
        """Exchange a group's queries; keep this warp's quarter of the columns as left operands."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        for i in cutlass.range_constexpr(c.query_copies):
            copy = tid % c.group_threads + i * c.group_threads
            rOne = cute.make_rmem_tensor((_WORDS_PER_COPY,), Int32)
            for word in cutlass.range_constexpr(_WORDS_PER_COPY):
                rOne[word] = rAsked[i, word]
            if copy < c.head_block * c.row_copies:
                target = sQuery[group * c.head_block + copy // c.row_copies, None]
                write_vector(rOne, target, copy % c.row_copies, _WORDS_PER_COPY)
        self._group_barrier(group)
        left_operands(c, sQuery, group * c.head_block, rQuery)
        # The queries of the next request come to the same place.
        self._group_barrier(group)

    @cute.jit
    def _weigh_rows(
        self,
        quarters: list,
        sScores: cute.Tensor,
        rShares: cute.Tensor,
        rSums: cute.Tensor,
        rState: cute.Tensor,
        rLater: cute.Tensor,
        left: Int32,
        score_scale: Float32,
    ):
        """Shares relative to the largest exponent so far; older sums are scaled to a new one.

        The first `left` tokens of the tile belong to the request; a row may see none of them.
        """
        c = self.config
        found = self._row_exponents(quarters, sScores, rLater, left, score_scale)
        shares = []
        scales = []
        grown = cutlass.Boolean(False)
        for upper in cutlass.range_constexpr(2):
            mine = [
                found[4 * block + 2 * upper + i]
                for block in range(c.token_blocks)
                for i in range(2)
            ]
            highest = mine[0]
            for i in cutlass.range_constexpr(1, 2 * c.token_blocks):
                highest = cute.arch.fmax(highest, mine[i])
            for step in cutlass.range_constexpr(2):
                highest = cute.arch.fmax(highest, cute.arch.shuffle_sync_bfly(highest, 1 << step))
            grown = grown | (highest > rState[upper])
            highest = cute.arch.fmax(highest, rState[upper])
            # A row that has seen nothing yet keeps its shares at zero.
            reference = highest if highest > Float32(-math.inf) else Float32(0.0)
            scale = cute.math.exp2(rState[upper] - reference, fastmath=True)
            total = rState[2 + upper] * scale
            for i in cutlass.range_constexpr(2 * c.token_blocks):
                share = cute.math.exp2(mine[i] - reference, fastmath=True)
                total = total + share
                shares.append(share)
            rState[upper] = highest
            rState[2 + upper] = total
            scales.append(scale)
        for block in cutlass.range_constexpr(c.token_blocks):
            for upper in cutlass.range_constexpr(2):
                place = 2 * (upper * c.token_blocks + block)
                rShares[2 * block + upper] = pack_pair(
                    shares[place], shares[place + 1], form=c.product_format
                )
        if cute.arch.vote_any_sync(grown):
            for i in cutlass.range_constexpr(c.sums):
                rSums[i] = rSums[i] * scales[(i // 2) % 2]

    @cute.jit
    def _row_exponents(
        self,
        quarters: list,
        sScores: cute.Tensor,
        rLater: cute.Tensor,
        left: Int32,
        score_scale: Float32,
    ):
        """Exponents of two of all tokens of the tile, minus infinity for those a row is before."""
        c = self.config
        found = []
        wholes = self._whole_products(quarters, sScores)
        for block in cutlass.range_constexpr(c.token_blocks):
            column = block * PRODUCT_N + 2 * (cute.arch.lane_idx() % _QUAD)
            for i in cutlass.range_constexpr(4):
                exponent = wholes[4 * block + i] * score_scale
                seen = column + i % 2 + rLater[i // 2] < left
                found.append(exponent if seen else Float32(-math.inf))
        return found

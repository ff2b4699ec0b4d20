# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the routed experts, two kernels with weights as the first operand of the MMAs.

The first computes t = SiTU(W1 z, W3 z) of every chosen slot: CTAs walk over 32-row tiles of the
chosen experts, the warps of a CTA share the latent columns and add their sums in shared memory. The
second computes sum of w W2 t: a CTA owns 32 output columns of all rows and its warps share the
experts, each with sums of its own for every row; they are added in the order of the warps. So every
sum has one order, whatever finishes first, and no partial result goes through device memory.

Each warp has two chunks of weights in registers: one on its way, one in use. A warp barrier between
request and use keeps the compiler from moving the request to where the other chunk is done. Tokens
of an expert
come eight at a time; columns beyond its tokens repeat the last one and are not stored.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, Uint32, cute
from cutlass.memory import SmemAllocator

from k3decode.device.activation import situ
from k3decode.device.mxfp4 import (
    ACTIVATION_EXPONENT,
    BLOCK_ACCUMULATORS,
    BLOCK_WORDS,
    load_blocks,
    multiply_block,
    multiply_scaled_block,
)
from k3decode.device.row_io import WARP_SIZE, read_vector
from k3decode.device.slot_groups import SlotGroups, group_slots
from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import BLOCK_BYTES, BLOCK_ROWS
from k3decode.ops.experts.config import ExpertsConfig

__all__ = ["DownKernel", "GateUpKernel"]

_MANY_ROWS = 1 << 20
# Tokens of one MMA.
_COLUMNS = 8
_SCALE_BYTES = 32
_LANE_BYTES = 16
# 32-bit words of activations that one lane reads of a group: 8 BF16 values.
_LANE_WORDS = 4
_HALF_ROWS = BLOCK_ROWS // 2
# Room for the CTAs of an SM; the rest caches latent rows. Without it the compiler asks a GPU.
_GATE_UP_CARVEOUT_PERCENT = 40
# Blocks of a chunk whose tokens are read one chunk ahead, as many as registers allow.
_GATE_UP_AHEAD = 3
_DOWN_AHEAD = 1


class GateUpKernel:
    """Gate and up projection with the activation."""

    def __init__(self, config: ExpertsConfig) -> None:
        self.config = config
        # What the second kernel's products want; wide scales do not leave room for it.
        self.inner_factor = 1.0 if config.wide_scales else 2.0**ACTIVATION_EXPONENT

    @cute.jit
    def __call__(
        self,
        latent: cute.Pointer,
        experts: cute.Pointer,
        weights: cute.Pointer,
        scales: cute.Pointer,
        inner: cute.Pointer,
        latent_stride: Int64,
        rows: Int32,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `ctas` CTAs; the stride is in words of two values."""
        c = self.config
        stride = cute.assume(latent_stride, divby=_LANE_WORDS)
        words = cute.make_layout((_MANY_ROWS, c.latent_size // 2), stride=(stride, 1))
        self.kernel(
            cute.make_tensor(cute.recast_ptr(latent, dtype=Uint32), words),
            cute.make_tensor(experts, cute.make_layout(c.max_slots)),
            weights,
            scales,
            cute.make_tensor(
                inner, cute.make_layout((c.max_slots, c.inner_size), stride=(c.inner_size, 1))
            ),
            rows,
        ).launch(
            grid=[ctas, 1, 1],
            block=[c.gate_up_threads, 1, 1],
            min_blocks_per_mp=c.gate_up_ctas_per_sm,
            preferred_smem_carveout=_GATE_UP_CARVEOUT_PERCENT,
            use_pdl=True,
            stream=stream,
        )

    @cute.kernel
    def kernel(
        self,
        mLatent: cute.Tensor,
        mExperts: cute.Tensor,
        weights: cute.Pointer,
        scales: cute.Pointer,
        mInner: cute.Tensor,
        rows: Int32,
    ):
        """Walk over tiles of the chosen experts; tokens of a tile eight at a time."""
        c = self.config
        chunk = c.gate_up_chunk
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        tid, _, _ = cute.arch.thread_idx()
        cta, _, _ = cute.arch.block_idx()
        ctas, _, _ = cute.arch.grid_dim()
        smem = SmemAllocator()
        groups = _groups(smem, c, c.gate_up_threads)
        sSums = smem.allocate_tensor(
            Float32, _dense(WARP_SIZE, BLOCK_ACCUMULATORS, c.gate_up_warps, 2), 16
        )
        sBarrier = smem.allocate_tensor(Int64, cute.make_layout(1), 8)
        barrier = sBarrier.iterator
        rWords = [cute.make_rmem_tensor((chunk, BLOCK_WORDS), Uint32) for _ in range(2)]
        rScales = [cute.make_rmem_tensor((chunk,), Uint32) for _ in range(2)]
        rAhead = [cute.make_rmem_tensor((_LANE_WORDS, _GATE_UP_AHEAD), Uint32) for _ in range(2)]
        if tid == 0:
            cute.arch.mbarrier_init(barrier, c.gate_up_warps)
        cute.arch.mbarrier_init_fence()
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        items = group_slots(groups, mExperts, None, rows) * c.gate_up_tiles
        start = 2 * warp * chunk
        item, column, parity = cta, Int32(0), Int32(0)
        before, before_tokens, before_tile = Int32(0), Int32(-1), Int32(0)
        block = Int32(0)
        if item < items:
            block = self._first_block(groups, item, warp)
            gToken = mLatent[self._row(groups, item, column), None]
            _load(weights, scales, block, lane, rWords[0], rScales[0])
            _read_ahead(gToken, start, rAhead[0])
            cute.arch.sync_warp()
        while item < items:
            place = item // c.gate_up_tiles
            first = groups.sFirst[place]
            tokens = groups.sFirst[place + 1] - first
            more = column + _COLUMNS < tokens
            next_item = item if more else item + ctas
            next_column = column + _COLUMNS if more else Int32(0)
            gToken = mLatent[self._row(groups, item, column), None]
            _load(weights, scales, block + chunk, lane, rWords[1], rScales[1])
            _read_ahead(gToken, start + chunk, rAhead[1])
            cute.arch.sync_warp()
            sums = [Float32(0.0)] * BLOCK_ACCUMULATORS
            sums = _multiply(c, sums, rWords[0], rScales[0], rAhead[0], gToken, start)
            # The warps' sums of the tile before are added in the middle of this one, where the
            # slowest warp of that tile is no longer waited for.
            if before_tokens >= 0:
                cute.arch.mbarrier_wait(barrier, parity ^ 1)
                self._activate(sSums, mInner, parity ^ 1, before, before_tokens, before_tile)
            # Past the end the last item is loaded once more, which is in the cache.
            loaded = next_item if next_item < items else item
            block = self._first_block(groups, loaded, warp)
            gNext = mLatent[self._row(groups, loaded, next_column), None]
            _load(weights, scales, block, lane, rWords[0], rScales[0])
            _read_ahead(gNext, start, rAhead[0])
            cute.arch.sync_warp()
            sums = _multiply(c, sums, rWords[1], rScales[1], rAhead[1], gToken, start + chunk)
            for i in cutlass.range_constexpr(BLOCK_ACCUMULATORS):
                sSums[lane, i, warp, parity] = sums[i]
            cute.arch.sync_warp()
            if lane == 0:
                cute.arch.mbarrier_arrive(barrier)
            before, before_tokens = first + column, tokens - column
            before_tile = item - place * c.gate_up_tiles
            item, column, parity = next_item, next_column, parity ^ 1
        if before_tokens >= 0:
            cute.arch.mbarrier_wait(barrier, parity ^ 1)
            self._activate(sSums, mInner, parity ^ 1, before, before_tokens, before_tile)

    @cute.jit
    def _first_block(self, groups: cutlass.Constexpr, item: Int32, warp: Int32) -> Int32:
        """Index of the warp's first block of a tile."""
        c = self.config
        place = item // c.gate_up_tiles
        tile = groups.sExpert[place] * c.gate_up_tiles + item - place * c.gate_up_tiles
        return tile * (c.latent_size // MXFP4_GROUP) + 2 * warp * c.gate_up_chunk

    @cute.jit
    def _row(self, groups: cutlass.Constexpr, item: Int32, column: Int32) -> Int32:
        """Row of the lane's token."""
        position = _position(groups, item // self.config.gate_up_tiles, column)
        return groups.sSlot[position] // self.config.top_k

    @cute.jit
    def _activate(
        self,
        sSums: cute.Tensor,
        mInner: cute.Tensor,
        parity: Int32,
        position: Int32,
        tokens: Int32,
        tile: Int32,
    ):
        """Add the warps' sums in order, activate, store 16 inner columns of up to eight tokens."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        lane, i = tid % WARP_SIZE, tid // WARP_SIZE
        token = 2 * (lane % 4) + i % 2
        if i < BLOCK_ACCUMULATORS // 2 and token < tokens:
            gate, up = Float32(0.0), Float32(0.0)
            for warp in cutlass.range_constexpr(c.gate_up_warps):
                gate = gate + sSums[lane, i, warp, parity]
                up = up + sSums[lane, i + BLOCK_ACCUMULATORS // 2, warp, parity]
            active = situ(gate, up, c.situ_beta, c.situ_linear_beta) * self.inner_factor
            row = lane // 4 + 8 * (i // 2)
            mInner[position + token, tile * _HALF_ROWS + row] = active.to(BFloat16)


class DownKernel:
    """Down projection and weighted sum over a row's experts."""

    def __init__(self, config: ExpertsConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        inner: cute.Pointer,
        experts: cute.Pointer,
        shares: cute.Pointer,
        weights: cute.Pointer,
        scales: cute.Pointer,
        out: cute.Pointer,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch one CTA per 32 output columns; the stride is in elements."""
        c = self.config
        words = cute.make_layout((c.max_slots, c.inner_size // 2), stride=(c.inner_size // 2, 1))
        self.kernel(
            cute.make_tensor(cute.recast_ptr(inner, dtype=Uint32), words),
            cute.make_tensor(experts, cute.make_layout(c.max_slots)),
            cute.make_tensor(shares, cute.make_layout(c.max_slots)),
            weights,
            scales,
            cute.make_tensor(
                out, cute.make_layout((_MANY_ROWS, c.latent_size), stride=(out_stride, 1))
            ),
            rows,
        ).launch(
            grid=[c.down_tiles, 1, 1],
            block=[c.down_threads, 1, 1],
            use_pdl=True,
            stream=stream,
        )

    @cute.kernel
    def kernel(
        self,
        mInner: cute.Tensor,
        mExperts: cute.Tensor,
        mShares: cute.Tensor,
        weights: cute.Pointer,
        scales: cute.Pointer,
        mOut: cute.Tensor,
        rows: Int32,
    ):
        """Walk over the warp's experts, tokens of an expert eight at a time; then add the warps."""
        c = self.config
        chunk = c.down_chunk
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        tid, _, _ = cute.arch.thread_idx()
        tile, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        groups = _groups(smem, c, c.down_threads)
        sSums = smem.allocate_tensor(Float32, _dense(BLOCK_ROWS, c.max_rows, c.down_warps), 16)
        rWords = [cute.make_rmem_tensor((chunk, BLOCK_WORDS), Uint32) for _ in range(2)]
        rScales = [cute.make_rmem_tensor((chunk,), Uint32) for _ in range(2)]
        rAhead = [cute.make_rmem_tensor((_LANE_WORDS, _DOWN_AHEAD), Uint32) for _ in range(2)]
        # The first kernel waited for the router before it let this one start: ids are final.
        chosen = group_slots(groups, mExperts, mShares, rows)
        for row in cutlass.range(rows):
            sSums[lane, row, warp] = 0.0
        place, column = warp, Int32(0)
        block = Int32(0)
        if place < chosen:
            block = self._first_block(groups, place, tile)
            _load(weights, scales, block, lane, rWords[0], rScales[0])
        cute.arch.griddepcontrol_wait()
        if place < chosen:
            _read_ahead(mInner[_position(groups, place, column), None], 0, rAhead[0])
        while place < chosen:
            first = groups.sFirst[place]
            tokens = groups.sFirst[place + 1] - first
            more = column + _COLUMNS < tokens
            next_place = place if more else place + c.down_warps
            next_column = column + _COLUMNS if more else Int32(0)
            gToken = mInner[_position(groups, place, column), None]
            _load(weights, scales, block + chunk, lane, rWords[1], rScales[1])
            _read_ahead(gToken, chunk, rAhead[1])
            cute.arch.sync_warp()
            sums = [Float32(0.0)] * BLOCK_ACCUMULATORS
            sums = _multiply(c, sums, rWords[0], rScales[0], rAhead[0], gToken, 0, scaled=True)
            # Past the end the last blocks are loaded once more, which are in the cache.
            loaded = next_place if next_place < chosen else place
            block = self._first_block(groups, loaded, tile)
            gNext = mInner[_position(groups, loaded, next_column), None]
            _load(weights, scales, block, lane, rWords[0], rScales[0])
            _read_ahead(gNext, 0, rAhead[0])
            cute.arch.sync_warp()
            sums = _multiply(c, sums, rWords[1], rScales[1], rAhead[1], gToken, chunk, scaled=True)
            for i in cutlass.range_constexpr(2):
                token = column + 2 * (lane % 4) + i
                if token < tokens:
                    share = groups.sShare[first + token]
                    out_row = groups.sSlot[first + token] // c.top_k
                    for j in cutlass.range_constexpr(BLOCK_ACCUMULATORS // 2):
                        total = sSums[lane // 4 + 8 * j, out_row, warp]
                        total = total + share * sums[2 * j + i]
                        sSums[lane // 4 + 8 * j, out_row, warp] = total
            cute.arch.sync_warp()
            place, column = next_place, next_column
        cute.arch.sync_threads()
        for i in cutlass.range(tid, rows * BLOCK_ROWS, c.down_threads):
            total = Float32(0.0)
            for other_warp in cutlass.range_constexpr(c.down_warps):
                total = total + sSums[i % BLOCK_ROWS, i // BLOCK_ROWS, other_warp]
            mOut[i // BLOCK_ROWS, tile * BLOCK_ROWS + i % BLOCK_ROWS] = total.to(BFloat16)

    @cute.jit
    def _first_block(self, groups: cutlass.Constexpr, place: Int32, tile: Int32) -> Int32:
        """Index of the first block of this CTA's rows of an expert."""
        c = self.config
        rows = groups.sExpert[place] * c.down_tiles + tile
        return rows * (c.inner_size // MXFP4_GROUP)


@cute.jit
def _position(groups: cutlass.Constexpr, place: Int32, column: Int32) -> Int32:
    """Position of the lane's token; beyond the tokens the last one, which another lane has too."""
    position = groups.sFirst[place] + column + cute.arch.lane_idx() // 4
    return cutlass.min(position, groups.sFirst[place + 1] - 1)


def _groups(smem: SmemAllocator, config: ExpertsConfig, threads: int) -> SlotGroups:
    return SlotGroups(
        smem,
        num_experts=config.num_experts,
        top_k=config.top_k,
        max_slots=config.max_slots,
        threads=threads,
    )


def _load(
    weights: cute.Pointer,
    scales: cute.Pointer,
    block: Int32,
    lane: Int32,
    rWords: cute.Tensor,
    rScales: cute.Tensor,
) -> None:
    """Load this lane's part of a chunk of blocks."""
    load_blocks(
        weights.toint() + Int64(block) * BLOCK_BYTES + lane * _LANE_BYTES,
        scales.toint() + Int64(block) * _SCALE_BYTES + lane // 4 * 4,
        rWords,
        rScales,
    )


def _read_ahead(gToken: cute.Tensor, group: Int32, rAhead: cute.Tensor) -> None:
    """Read the lane's token for the first blocks of a chunk."""
    for i in range(rAhead.shape[1]):
        vector = (group + i) * 4 + cute.arch.lane_idx() % 4
        cute.autovec_copy(cute.local_tile(gToken, (_LANE_WORDS,), (vector,)), rAhead[None, i])


def _multiply(
    config: ExpertsConfig,
    sums: list,
    rWords: cute.Tensor,
    rScales: cute.Tensor,
    rAhead: cute.Tensor,
    gToken: cute.Tensor,
    group: Int32,
    *,
    scaled: bool = False,
) -> list:
    """Add a chunk of blocks, from a group on, times the lane's token, of which a part is there."""
    blocks, ahead = rScales.shape[0], rAhead.shape[1]
    vector = group * 4 + cute.arch.lane_idx() % 4
    # The rest is requested now and arrives while the part that is there is used.
    rRest = [read_vector(gToken, vector + 4 * i, _LANE_WORDS) for i in range(ahead, blocks)]
    rToken = [rAhead[None, i] for i in range(min(ahead, blocks))] + rRest
    for i in range(blocks):
        words = [rWords[i, word] for word in range(BLOCK_WORDS)]
        token = [rToken[i][word] for word in range(_LANE_WORDS)]
        if scaled and not config.wide_scales:
            sums = multiply_scaled_block(sums, words, rScales[i], token)
        else:
            sums = multiply_block(sums, words, rScales[i], token, wide_scales=config.wide_scales)
    return sums


def _dense(*extents: int) -> cute.Layout:
    """Layout whose first extent is innermost."""
    return cute.make_ordered_layout(extents, order=tuple(range(len(extents))))

# mypy: ignore-errors
# ruff: noqa: N803, N806, N815, PLR0917
# CuTe's names for memory spaces, and device code that branches at compile time.
"""What each warp of an expert kernel for Blackwell does; all walk through the same tiles.

A tile is one of an expert's blocks of 128 weight rows, and its columns up to 16 of the expert's
tokens. Chunks of all tiles have one number after the other, their turns, which name slots and
phases of every ring.
"""

from dataclasses import dataclass

import cutlass
from cutlass import BFloat16, Int32, Int64, Uint32, cute
from cutlass.cute.nvgpu import tcgen05

from k3decode.device.activation import situ
from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.mxfp4 import GROUP_PAIRS, dequantised_group
from k3decode.device.row_io import WARP_SIZE
from k3decode.device.slot_groups import SlotGroups
from k3decode.device.swizzled_places import row_place
from k3decode.device.tensor_memory import (
    after_barrier,
    before_barrier,
    lanes_of_warp,
    load_columns,
    store_columns,
)
from k3decode.mxfp4_blocks import CHUNK_GROUPS, ROW_CHUNK_BYTES, ROW_CHUNK_ROWS
from k3decode.ops.experts_blackwell.config import (
    CHUNK_COLUMNS,
    TILE_TOKENS,
    ExpertsBlackwellConfig,
)
from k3decode.ops.experts_blackwell.pipeline import Bars
from k3decode.ops.experts_blackwell.turns import first_turn_of_group, phase_of, slot_of

__all__ = ["Roles", "Shared"]

_DEPTH = 16
_ROW_BYTES = 128
_ROW_PIECES = _ROW_BYTES // COPY_BYTES
_HALF_ROWS = ROW_CHUNK_ROWS // 2
_GROUP_BYTES = ROW_CHUNK_ROWS * 16
_SCALES_AT = CHUNK_GROUPS * _GROUP_BYTES
_FIRST_BARRIER = 1
# Chunks of tokens whose copies are still on their way when another is requested.
_TOKENS_AHEAD = 6


@dataclass(frozen=True)
class Shared:
    """Shared memory of a CTA."""

    weights: Int32
    """Address of the ring of packed weights."""
    tokens: Int32
    """Address of the ring of tokens."""
    sUp: cute.Tensor
    """[64, 16, groups]: up values on their way to the threads that have their gates."""
    bars: Bars
    groups: SlotGroups


class Roles:
    """The work of a CTA."""

    def __init__(
        self, config: ExpertsBlackwellConfig, shared: Shared, *, is_down: bool, chosen: Int32
    ) -> None:
        c = config
        self.config = config
        self.shared = shared
        self.is_down = is_down
        self.tiles = c.down_tiles if is_down else c.gate_up_tiles
        self.chunks = c.down_chunks if is_down else c.gate_up_chunks
        self.first, _, _ = cute.arch.block_idx()
        self.step, _, _ = cute.arch.grid_dim()
        self.items = chosen * self.tiles

    @cute.jit
    def _next(self, item: Int32, column: Int32):
        """The next tokens of an expert's tile, or the next tile."""
        sFirst = self.shared.groups.sFirst
        place = item // self.tiles
        after = column + TILE_TOKENS
        more = after < sFirst[place + 1] - sFirst[place]
        return item if more else item + self.step, after if more else Int32(0)

    @cute.jit
    def bring_weights(self, weights: Int64):
        """One warp: a bulk copy for each chunk, as soon as there is room."""
        c, s = self.config, self.shared
        item, column, turn = self.first, Int32(0), Int32(0)
        while item < self.items:
            place = item // self.tiles
            tile = s.groups.sExpert[place] * self.tiles + item - place * self.tiles
            source = weights + Int64(tile) * (self.chunks * ROW_CHUNK_BYTES)
            for _ in cutlass.range(self.chunks):
                slot = slot_of(turn, c.stages)
                full = s.bars.weights_full + slot
                cute.arch.mbarrier_wait(s.bars.weights_empty + slot, phase_of(turn, c.stages) ^ 1)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full, ROW_CHUNK_BYTES)
                    cute.arch.inline_ptx(
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                        f"[{{$r0}}], [{{$r1}}], {ROW_CHUNK_BYTES}, [{{$r2}}];",
                        read_only_args=[s.weights + slot * ROW_CHUNK_BYTES, source, full],
                    )
                source = source + ROW_CHUNK_BYTES
                turn = turn + 1
            item, column = self._next(item, column)

    @cute.jit
    def bring_tokens(self, source: Int64, source_bytes: Int64, first_thread: cutlass.Constexpr):
        """Two warps: 128 bytes of each of 16 tokens for each chunk, swizzled."""
        c, s = self.config, self.shared
        tid, _, _ = cute.arch.thread_idx()
        thread = tid - first_thread
        piece = thread % _ROW_PIECES
        column_step = c.ask_threads // _ROW_PIECES
        item, column, turn = self.first, Int32(0), Int32(0)
        rAt = cute.make_rmem_tensor((TILE_TOKENS // column_step,), Int64)
        rUsed = cute.make_rmem_tensor((TILE_TOKENS // column_step,), Int32)
        while item < self.items:
            for i in cutlass.range_constexpr(TILE_TOKENS // column_step):
                token = column + thread // _ROW_PIECES + i * column_step
                row, used = self._source_row(item // self.tiles, token)
                rAt[i] = source + Int64(row) * source_bytes + piece * COPY_BYTES
                rUsed[i] = used
            for chunk in cutlass.range(self.chunks):
                slot = slot_of(turn, c.stages)
                cute.arch.mbarrier_wait(s.bars.tokens_empty + slot, phase_of(turn, c.stages) ^ 1)
                for i in cutlass.range_constexpr(TILE_TOKENS // column_step):
                    token = thread // _ROW_PIECES + i * column_step
                    target = s.tokens + slot * c.token_bytes
                    target = target + row_place(TILE_TOKENS, _ROW_BYTES, token, piece)
                    request_copy(target, rAt[i] + chunk * _ROW_BYTES, rUsed[i], (0, 0))
                cute.arch.cp_async_commit_group()
                cute.arch.cp_async_wait_group(_TOKENS_AHEAD)
                if turn >= _TOKENS_AHEAD:
                    self._pass_tokens(turn - _TOKENS_AHEAD)
                turn = turn + 1
            item, column = self._next(item, column)
        cute.arch.cp_async_wait_group(0)
        for late in cutlass.range(cutlass.max(turn - _TOKENS_AHEAD, 0), turn):
            self._pass_tokens(late)

    @cute.jit
    def _pass_tokens(self, turn: Int32):
        """This thread's copies of a chunk are done: the matrix unit may see them."""
        cute.arch.fence_view_async_shared()
        slot = slot_of(turn, self.config.stages)
        cute.arch.mbarrier_arrive(self.shared.bars.tokens_full + slot)

    @cute.jit
    def _source_row(self, place: Int32, token: Int32):
        """Row of a token of a place, and bytes of a copy of it: none beyond the last token."""
        c, groups = self.config, self.shared.groups
        position = groups.sFirst[place] + token
        used = position < groups.sFirst[place + 1]
        position = position if used else groups.sFirst[place]
        row = position
        if cutlass.const_expr(not self.is_down):
            row = groups.sSlot[position] // c.top_k
        return row, Int32(COPY_BYTES) if used else Int32(0)

    @cute.jit
    def multiply(self, product: cute.TiledMma, sTokens: cute.Tensor, memory: cute.Pointer):
        """One warp: the products of every chunk whose operands are there."""
        c, s = self.config, self.shared
        sums = product.make_fragment_C(
            product.partition_shape_C((ROW_CHUNK_ROWS, TILE_TOKENS))
        ).layout
        rows = product.make_fragment_A(
            product.partition_shape_A((ROW_CHUNK_ROWS, CHUNK_COLUMNS))
        ).layout
        tTokens = product.make_fragment_B(sTokens)
        item, column, turn, tile = self.first, Int32(0), Int32(0), Int32(0)
        while item < self.items:
            place = tile % 2
            tSums = cute.make_tensor(memory + place * TILE_TOKENS, sums)
            cute.arch.mbarrier_wait(s.bars.sums_empty + place, phase_of(tile, 2) ^ 1)
            after_barrier()
            product.set(tcgen05.Field.ACCUMULATE, False)
            for _ in cutlass.range(self.chunks):
                slot, group = slot_of(turn, c.stages), slot_of(turn, c.groups)
                at = memory + 2 * TILE_TOKENS + group * c.weight_columns
                tRows = cute.make_tensor(cute.recast_ptr(at, dtype=BFloat16), rows)
                cute.arch.mbarrier_wait(s.bars.tokens_full + slot, phase_of(turn, c.stages))
                cute.arch.mbarrier_wait(s.bars.operand_full + group, phase_of(turn, c.groups))
                after_barrier()
                for step in cutlass.range_constexpr(CHUNK_COLUMNS // _DEPTH):
                    cute.gemm(
                        product,
                        tSums,
                        tRows[None, None, step],
                        tTokens[None, None, step, slot],
                        tSums,
                    )
                    product.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(s.bars.tokens_empty + slot)
                    tcgen05.commit(s.bars.operand_empty + group)
                turn = turn + 1
            with cute.arch.elect_one():
                tcgen05.commit(s.bars.sums_full + place)
            tile = tile + 1
            item, column = self._next(item, column)

    @cute.jit
    def dequantise(self, memory: Int32, mTarget: cute.Tensor, first_warp: cutlass.Constexpr):
        """Groups of four warps: every second chunk into tensor memory, every second tile out."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        thread = tid - first_warp * WARP_SIZE
        group, row = thread // c.group_threads, thread % c.group_threads
        lanes = lanes_of_warp(memory, row // WARP_SIZE)
        operand = lanes + 2 * TILE_TOKENS + group * c.weight_columns
        item, column, turn, tile = self.first, Int32(0), Int32(0), Int32(0)
        while item < self.items:
            end = turn + self.chunks
            # This group's first chunk of the tile.
            mine = first_turn_of_group(turn, group, c.groups)
            while mine < end:
                self._put_chunk(operand, row, group, mine)
                mine = mine + c.groups
            if tile % 2 == group:
                self._take_sums(lanes, mTarget, row, group, item, column, tile)
            turn, tile = end, tile + 1
            item, column = self._next(item, column)

    @cute.jit
    def _put_chunk(self, operand: Int32, row: Int32, group: Int32, turn: Int32):
        """De-quantise a row of a chunk into this thread's lane of tensor memory."""
        c, bars = self.config, self.shared.bars
        slot = slot_of(turn, c.stages)
        cute.arch.mbarrier_wait(bars.weights_full + slot, phase_of(turn, c.stages))
        at = self.shared.weights + slot * ROW_CHUNK_BYTES
        scales = cute.arch.inline_ptx(
            f"{{ .reg .b16 both; ld.shared.b16 both, [{{$r0}}+{_SCALES_AT}]; "
            "cvt.u32.u16 {$w0}, both; }",
            write_only_types=[Uint32],
            read_only_args=[at + row * CHUNK_GROUPS],
        )
        held = []
        for part in cutlass.range_constexpr(CHUNK_GROUPS):
            found = cute.arch.inline_ptx(
                "ld.shared.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, "
                f"[{{$r0}}+{part * _GROUP_BYTES}];",
                write_only_types=[Uint32] * 4,
                read_only_args=[at + row * 16],
            )
            held.append(list(found))
        cute.arch.mbarrier_arrive(bars.weights_empty + slot)
        cute.arch.mbarrier_wait(bars.operand_empty + group, phase_of(turn, c.groups) ^ 1)
        after_barrier()
        for part in cutlass.range_constexpr(CHUNK_GROUPS):
            pairs = dequantised_group(held[part], scales, part, wide_scales=c.wide_scales)
            store_columns(operand + part * GROUP_PAIRS, pairs)
        before_barrier()
        cute.arch.mbarrier_arrive(bars.operand_full + group)

    @cute.jit
    def _take_sums(
        self,
        lanes: Int32,
        mTarget: cute.Tensor,
        row: Int32,
        group: Int32,
        item: Int32,
        column: Int32,
        tile: Int32,
    ):
        """Take a tile's sums out of tensor memory and write what becomes of them."""
        bars, groups = self.shared.bars, self.shared.groups
        place = item // self.tiles
        cute.arch.mbarrier_wait(bars.sums_full + group, phase_of(tile, 2))
        after_barrier()
        sums = load_columns(lanes + group * TILE_TOKENS)
        before_barrier()
        cute.arch.mbarrier_arrive(bars.sums_empty + group)
        first = groups.sFirst[place] + column
        tokens = groups.sFirst[place + 1] - first
        block = item - place * self.tiles
        if cutlass.const_expr(self.is_down):
            for i in cutlass.range_constexpr(TILE_TOKENS):
                if i < tokens:
                    slot, share = groups.sSlot[first + i], groups.sShare[first + i]
                    mTarget[slot, block * ROW_CHUNK_ROWS + row] = share * sums[i]
        else:
            self._activate(mTarget, sums, row, group, first, tokens, block)

    @cute.jit
    def _activate(
        self,
        mTarget: cute.Tensor,
        sums: list,
        row: Int32,
        group: Int32,
        first: Int32,
        tokens: Int32,
        block: Int32,
    ):
        """The upper half of the lanes hands its up values to those with their gates."""
        c, sUp = self.config, self.shared.sUp
        barrier = _FIRST_BARRIER + group
        if row >= _HALF_ROWS:
            for i in cutlass.range_constexpr(TILE_TOKENS):
                sUp[row - _HALF_ROWS, i, group] = sums[i]
        cute.arch.barrier(barrier_id=barrier, number_of_threads=c.group_threads)
        if row < _HALF_ROWS:
            for i in cutlass.range_constexpr(TILE_TOKENS):
                if i < tokens:
                    active = situ(sums[i], sUp[row, i, group], c.situ_beta, c.situ_linear_beta)
                    mTarget[first + i, block * _HALF_ROWS + row] = active.to(BFloat16)
        cute.arch.barrier(barrier_id=barrier, number_of_threads=c.group_threads)

# mypy: ignore-errors
# ruff: noqa: N803, N806, SIM102
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the experts' second half: the weighted sum of W2 t over a row's experts.

A CTA owns output tiles of 32 columns, of all rows. Its warps share the experts and leave the
weighted outputs of every slot in shared memory; a row's are added in the order of its choices,
whatever finishes first.
"""

import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, Uint32, cute

from k3decode.device.mxfp4 import multiply_block, multiply_scaled_block, multiply_scaled_chunk
from k3decode.mxfp4_blocks import BLOCK_ROWS, CHUNK_GROUPS
from k3decode.ops.experts.config import BODY_CHUNKS, ExpertsConfig
from k3decode.ops.experts.stage import LANE_WORDS, Stage, token_position
from k3decode.ops.experts.weight_stream import WeightLine

__all__ = ["Down"]

_BF16_BYTES = 2
_LANE_BYTES = 16
_GROUP_BYTES = 64
_BODY_BYTES = BODY_CHUNKS * CHUNK_GROUPS * _GROUP_BYTES
_LANE_ROWS = 4


class Down:
    """Second half of a CTA's work."""

    def __init__(
        self,
        config: ExpertsConfig,
        stage: Stage,
        line: WeightLine,
        mInner: cute.Tensor,
        mOut: cute.Tensor,
        *,
        rows: Int32,
        chosen: Int32,
    ) -> None:
        """Take the buffers.

        Args:
            config: variant.
            stage: shared memory.
            line: weights.
            mInner: BF16 [slots, I], of all CTAs.
            mOut: BF16 [M, L], written.
            rows: M.
            chosen: experts.
        """
        self.config = config
        self.stage = stage
        self.line = line
        self.mInner = mInner
        self.mOut = mOut
        self.rows = rows
        self.chosen = chosen
        # A body's columns of the token at hand, each replaced by what comes a body later.
        self.rToken = cute.make_rmem_tensor((LANE_WORDS, BODY_CHUNKS * config.lane_columns), Uint32)
        self.rSums = cute.make_rmem_tensor((config.pass_tokens,), Float32)

    @cute.jit
    def run(self, tile: Int32, step: Int32, slot: Int32):
        """Compute tile `tile` and every `step`-th behind it; first chunks are from `slot` on."""
        c, s, rSums = self.config, self.stage, self.rSums
        bodies = c.down_chunks // BODY_CHUNKS
        at = self._token_at(s.warp, Int32(0))
        if tile < c.down_tiles:
            for group in cutlass.range_constexpr(BODY_CHUNKS * c.lane_columns):
                self._load_token(at, group)
        while tile < c.down_tiles:
            place, column = s.warp, Int32(0)
            while place < self.chosen:
                next_place, next_column = place + c.warps, Int32(0)
                if cutlass.const_expr(not c.one_pass):
                    if column + c.pass_tokens < self._tokens(place):
                        next_place, next_column = place, column + c.pass_tokens
                following = self._token_at(next_place, next_column)
                for i in cutlass.range_constexpr(c.pass_tokens):
                    rSums[i] = Float32(0.0)
                for body in cutlass.range(bodies, unroll=1):
                    at = at + _BODY_BYTES if body + 1 < bodies else following
                    for chunk in cutlass.range_constexpr(BODY_CHUNKS):
                        slot = self._chunk(slot, at, chunk)
                self._keep(place, column)
                place, column = next_place, next_column
            cute.arch.sync_threads()
            self._add_rows(tile)
            cute.arch.sync_threads()
            tile = tile + step

    @cute.jit
    def _chunk(self, slot: Int32, ahead: Int64, chunk: cutlass.Constexpr) -> Int32:
        """Add a chunk's products, request what comes next for its slot, and its token's next."""
        c, rSums = self.config, self.rSums
        words, scales = self.stage.ring.take(slot)
        sums = [rSums[i] for i in range(c.pass_tokens)]
        groups = range(chunk * c.lane_columns, (chunk + 1) * c.lane_columns)
        tokens = [[self.rToken[word, group] for word in range(LANE_WORDS)] for group in groups]
        if cutlass.const_expr(c.lane_columns == 1):
            sums = multiply_scaled_chunk(sums, words, scales, tokens[0])
        else:
            for block in cutlass.range_constexpr(CHUNK_GROUPS):
                one = (sums, words[block], scales[block], tokens[block])
                if cutlass.const_expr(c.wide_scales):
                    sums = multiply_block(*one, wide_scales=True)
                else:
                    sums = multiply_scaled_block(*one)
        for i in cutlass.range_constexpr(c.pass_tokens):
            rSums[i] = sums[i]
        self.line.request_down(slot, chunk)
        for group in cutlass.range_constexpr(c.lane_columns):
            self._load_token(ahead, chunk * c.lane_columns + group)
        return self.stage.ring.following(slot)

    @cute.jit
    def _tokens(self, place: Int32) -> Int32:
        """Tokens of an expert."""
        return self.stage.groups.sFirst[place + 1] - self.stage.groups.sFirst[place]

    @cute.jit
    def _token_at(self, place: Int32, column: Int32) -> Int64:
        """Address of the lane's first values of its token of a place; of any beyond the last."""
        place = place if place < self.chosen else cutlass.min(self.stage.warp, self.chosen - 1)
        position = Int32(0)
        if self.chosen > 0:
            position = token_position(self.stage, place, column + self.stage.lane_token)
        row = Int64(position) * (self.config.inner_size * _BF16_BYTES)
        lane = self.stage.lane
        within = lane % 4 * _LANE_BYTES
        if cutlass.const_expr(self.config.lane_columns == 1):
            within = within + lane // 4 % 2 * _GROUP_BYTES
        return self.mInner.iterator.toint() + row + within

    def _load_token(self, at: Int64, group: int) -> None:
        """One group of a token, from the L2 cache: other SMs have just written it."""
        step = _GROUP_BYTES * CHUNK_GROUPS // self.config.lane_columns
        found = cute.arch.inline_ptx(
            "ld.global.cg.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, "
            f"[{{$r0}}+{group * step}];",
            write_only_types=[Uint32] * LANE_WORDS,
            read_only_args=[at],
        )
        rToken = self.rToken
        for word in range(LANE_WORDS):
            rToken[word, group] = found[word]

    @cute.jit
    def _keep(self, place: Int32, column: Int32):
        """Weigh the outputs of an expert's tokens and leave them at their slots."""
        s, sOutputs, columns = self.stage, self.stage.sOutputs, self.config.lane_columns
        first = s.groups.sFirst[place]
        tokens = s.groups.sFirst[place + 1] - first
        for i in cutlass.range_constexpr(columns):
            token = column + columns * (s.lane % 4) + i
            if token < tokens:
                share = s.groups.sShare[first + token]
                taken = s.groups.sSlot[first + token]
                for j in cutlass.range_constexpr(_LANE_ROWS):
                    sOutputs[taken, s.lane // 4 + 8 * j] = share * self.rSums[columns * j + i]

    @cute.jit
    def _add_rows(self, tile: Int32):
        """Add each row's outputs in the order of its choices."""
        c, s, mOut = self.config, self.stage, self.mOut
        tid, _, _ = cute.arch.thread_idx()
        for i in cutlass.range(tid, self.rows * BLOCK_ROWS, c.threads):
            row, column = i // BLOCK_ROWS, i % BLOCK_ROWS
            total = Float32(0.0)
            for j in cutlass.range_constexpr(c.top_k):
                taken = row * c.top_k + j
                if s.groups.sIsServed[taken] != 0:
                    total = total + s.sOutputs[taken, column]
            mOut[row, tile * BLOCK_ROWS + column] = total.to(BFloat16)

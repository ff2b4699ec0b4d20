# mypy: ignore-errors
# ruff: noqa: N803, N806, SIM102
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the experts' first half: t = SiTU(W1 z, W3 z) of every chosen slot.

A team of warps walks over neighbouring tiles of 16 gate rows and their 16 up rows. Its warps share
the latent columns, keep the expert's tokens of their columns in registers, and add their sums in
shared memory in the order of the warps.
"""

import cutlass
from cutlass import BFloat16, Float32, Int32, Uint32, cute

from k3decode.device.activation import situ
from k3decode.device.mxfp4 import (
    ACTIVATION_EXPONENT,
    exceeds_scaled_range,
    multiply_block,
    multiply_scaled_block,
    multiply_scaled_chunk,
    scaled_activation,
    scaling_factor,
    sum_exponent,
)
from k3decode.mxfp4_blocks import BLOCK_ROWS, CHUNK_GROUPS
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.stage import LANE_WORDS, Stage, token_position
from k3decode.ops.experts.weight_stream import WeightLine

__all__ = ["GateUp"]

_HALF_ROWS = BLOCK_ROWS // 2
_CHUNK_VECTORS = 4 * CHUNK_GROUPS


class GateUp:
    """First half of a CTA's work."""

    def __init__(
        self,
        config: ExpertsConfig,
        stage: Stage,
        line: WeightLine,
        mLatent: cute.Tensor,
        mInner: cute.Tensor,
    ) -> None:
        """Take the buffers.

        Args:
            config: variant.
            stage: shared memory.
            line: weights.
            mLatent: words [M, L / 2].
            mInner: BF16 [slots, I], written.
        """
        self.config = config
        self.stage = stage
        self.line = line
        self.mLatent = mLatent
        self.mInner = mInner
        # What the second half's products want; wide scales do not leave room for it.
        self.inner_factor = 1.0 if config.wide_scales else 2.0**ACTIVATION_EXPONENT
        self.rToken = cute.make_rmem_tensor(
            (LANE_WORDS, config.gate_up_chunks * CHUNK_GROUPS), Uint32
        )
        self.rSums = cute.make_rmem_tensor((config.pass_tokens,), Float32)

    @cute.jit
    def run(self, item: Int32, column: Int32, passes: Int32) -> Int32:
        """Compute so many passes from a tile's token `column` on; first chunks are from slot 0 on.

        Returns the slot of the chunk behind the last.
        """
        c, s, sSums, rSums = self.config, self.stage, self.stage.sSums, self.rSums
        slot, parity = Int32(0), Int32(0)
        token, exponent = Int32(-1), Uint32(0)
        before, before_column = Int32(-1), Int32(0)
        while passes > 0:
            place = item // c.gate_up_tiles
            token, exponent = self._take_tokens(place, column, token, exponent)
            for i in cutlass.range_constexpr(c.pass_tokens):
                rSums[i] = Float32(0.0)
            for chunk in cutlass.range_constexpr(c.gate_up_chunks):
                slot = self._chunk(slot, token, exponent, chunk)
                # The warps' sums of the tile before are added in the middle of this one, where the
                # slowest warp of that tile is no longer waited for.
                if cutlass.const_expr(chunk == c.gate_up_chunks // 2):
                    if before >= 0:
                        cute.arch.mbarrier_wait(s.barrier, parity ^ 1)
                        self._activate(parity ^ 1, before, before_column)
            for i in cutlass.range_constexpr(c.pass_tokens):
                sSums[s.lane, i, s.warp, parity] = rSums[i]
            cute.arch.sync_warp()
            if s.lane == 0:
                cute.arch.mbarrier_arrive(s.barrier)
            before, before_column = item, column
            column, item = self._behind(place, column, item)
            parity, passes = parity ^ 1, passes - 1
        if before >= 0:
            cute.arch.mbarrier_wait(s.barrier, parity ^ 1)
            self._activate(parity ^ 1, before, before_column)
        return slot

    @cute.jit
    def _behind(self, place: Int32, column: Int32, item: Int32) -> tuple[Int32, Int32]:
        """First token and tile of the pass behind one."""
        c, groups = self.config, self.stage.groups
        if cutlass.const_expr(c.one_pass):
            item = item + 1
        else:
            column = column + c.pass_tokens
            if column >= groups.sFirst[place + 1] - groups.sFirst[place]:
                column, item = Int32(0), item + 1
        return column, item

    @cute.jit
    def _take_tokens(
        self, place: Int32, column: Int32, token: Int32, exponent: Uint32
    ) -> tuple[Int32, Uint32]:
        """Where the lane's token is, and the exponent of sums.

        That is its address in shared memory, or its row once that is in registers, as `token` is.
        """
        s = self.stage
        wanted = self._row(place, column + s.lane_token)
        if cutlass.const_expr(self.config.stages_tokens):
            wanted = s.tokens.address(wanted)
            exponent = s.tokens.exponent(self._row(place, column + s.lane % 4))
        else:  # noqa: PLR5501
            if cute.arch.vote_any_sync(wanted != token):
                exponent = self._load_tokens(wanted)
        return wanted, exponent

    @cute.jit
    def _row(self, place: Int32, token: Int32) -> Int32:
        """Row of an expert's token."""
        groups = self.stage.groups
        return groups.sSlot[token_position(self.stage, place, token)] // self.config.top_k

    @cute.jit
    def _chunk(self, slot: Int32, at: Int32, exponent: Uint32, chunk: cutlass.Constexpr) -> Int32:
        """Add a chunk's products and request another chunk for its slot."""
        c, rSums = self.config, self.rSums
        words, scales = self.stage.ring.take(slot)
        sums = [rSums[i] for i in range(c.pass_tokens)]
        if cutlass.const_expr(c.stages_tokens):
            token = self.stage.tokens.words(at, chunk)
            sums = multiply_scaled_chunk(sums, words, scales, token, exponent)
        else:
            for block in cutlass.range_constexpr(CHUNK_GROUPS):
                group = chunk * CHUNK_GROUPS + block
                token = [self.rToken[word, group] for word in range(LANE_WORDS)]
                one = (sums, words[block], scales[block], token)
                if cutlass.const_expr(c.wide_scales):
                    sums = multiply_block(*one, wide_scales=True)
                else:
                    sums = multiply_scaled_block(*one, exponent)
        for i in cutlass.range_constexpr(c.pass_tokens):
            rSums[i] = sums[i]
        self.line.request(slot, chunk)
        return self.stage.ring.following(slot)

    @cute.jit
    def _load_tokens(self, row: Int32) -> Uint32:
        """Load the lane's token at its warp's columns; returns the exponent of sums with it."""
        c, s, rToken = self.config, self.stage, self.rToken
        first = s.warp % c.team_warps * c.gate_up_chunks * _CHUNK_VECTORS + s.lane % 4
        gToken = self.mLatent[row, None]
        groups = c.gate_up_chunks * CHUNK_GROUPS
        for group in cutlass.range_constexpr(groups):
            vector = cute.local_tile(gToken, (LANE_WORDS,), (first + 4 * group,))
            cute.autovec_copy(vector, rToken[None, group])
        exponent = Uint32(0)
        if cutlass.const_expr(not c.wide_scales):
            large = Uint32(0)
            for group in cutlass.range_constexpr(groups):
                for word in cutlass.range_constexpr(LANE_WORDS):
                    large = large | exceeds_scaled_range(rToken[word, group])
            too_large = cute.arch.vote_any_sync(large != Uint32(0))
            shift = Int32(0) if too_large else Int32(ACTIVATION_EXPONENT)
            factor = scaling_factor(shift)
            for group in cutlass.range_constexpr(groups):
                for word in cutlass.range_constexpr(LANE_WORDS):
                    rToken[word, group] = scaled_activation(rToken[word, group], factor)
            exponent = sum_exponent(shift)
        return exponent

    @cute.jit
    def _activate(self, parity: Int32, item: Int32, column: Int32):
        """Add the warps' sums in order, activate, store 16 inner columns of a pass's tokens."""
        c, s, mInner = self.config, self.stage, self.mInner
        i = s.warp % c.team_warps
        team = s.warp - i
        place = item // c.gate_up_tiles
        tokens = s.groups.sFirst[place + 1] - s.groups.sFirst[place]
        half = c.pass_tokens // 2
        token = column + c.lane_columns * (s.lane % 4) + i % c.lane_columns
        if i < half and token < tokens:
            gate, up = Float32(0.0), Float32(0.0)
            for warp in cutlass.range_constexpr(c.team_warps):
                gate = gate + s.sSums[s.lane, i, team + warp, parity]
                up = up + s.sSums[s.lane, i + half, team + warp, parity]
            active = situ(gate, up, c.situ_beta, c.situ_linear_beta) * self.inner_factor
            row = (item - place * c.gate_up_tiles) * _HALF_ROWS + s.lane // 4
            row = row + 8 * (i // c.lane_columns)
            mInner[s.groups.sFirst[place] + token, row] = active.to(BFloat16)

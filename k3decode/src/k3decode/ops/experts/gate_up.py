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
    BLOCK_ACCUMULATORS,
    exceeds_scaled_range,
    multiply_block,
    multiply_scaled_block,
    scaled_activation,
    scaling_factor,
    sum_exponent,
)
from k3decode.mxfp4_blocks import BLOCK_ROWS, CHUNK_GROUPS
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.schedule import begins_stretch
from k3decode.ops.experts.stage import LANE_WORDS, TOKENS, Stage, token_position
from k3decode.ops.experts.weight_stream import GateUpStream

__all__ = ["GateUp"]

_HALF_ROWS = BLOCK_ROWS // 2
_CHUNK_VECTORS = 4 * CHUNK_GROUPS


class GateUp:
    """First half of a CTA's work."""

    def __init__(
        self,
        config: ExpertsConfig,
        stage: Stage,
        stream: GateUpStream,
        mLatent: cute.Tensor,
        mInner: cute.Tensor,
    ) -> None:
        """Take the buffers.

        Args:
            config: variant.
            stage: shared memory.
            stream: weights.
            mLatent: words [M, L / 2].
            mInner: BF16 [slots, I], written.
        """
        self.config = config
        self.stage = stage
        self.stream = stream
        self.mLatent = mLatent
        self.mInner = mInner
        # What the second half's products want; wide scales do not leave room for it.
        self.inner_factor = 1.0 if config.wide_scales else 2.0**ACTIVATION_EXPONENT
        self.rToken = cute.make_rmem_tensor(
            (LANE_WORDS, config.gate_up_chunks * CHUNK_GROUPS), Uint32
        )
        self.rSums = cute.make_rmem_tensor((BLOCK_ACCUMULATORS,), Float32)

    @cute.jit
    def run(self, item: Int32, end: Int32):
        """Compute tiles `item` to `end`, whose first chunks are on their way from slot 0 on."""
        c, s, sSums, rSums = self.config, self.stage, self.stage.sSums, self.rSums
        slot, column, parity = Int32(0), Int32(0), Int32(0)
        row, exponent = Int32(-1), Uint32(0)
        before, before_column = Int32(-1), Int32(0)
        while item < end:
            place = item // c.gate_up_tiles
            wanted = s.groups.sSlot[token_position(s.groups, place, column)] // c.top_k
            if cute.arch.vote_any_sync(wanted != row):
                row = wanted
                exponent = self._load_tokens(row)
            for i in cutlass.range_constexpr(BLOCK_ACCUMULATORS):
                rSums[i] = Float32(0.0)
            for chunk in cutlass.range_constexpr(c.gate_up_chunks):
                slot = self._chunk(slot, exponent, chunk)
                # The warps' sums of the tile before are added in the middle of this one, where the
                # slowest warp of that tile is no longer waited for.
                if cutlass.const_expr(chunk == c.gate_up_chunks // 2):
                    if before >= 0:
                        cute.arch.mbarrier_wait(s.barrier, parity ^ 1)
                        self._activate(parity ^ 1, before, before_column)
            for i in cutlass.range_constexpr(BLOCK_ACCUMULATORS):
                sSums[s.lane, i, s.warp, parity] = rSums[i]
            cute.arch.sync_warp()
            if s.lane == 0:
                cute.arch.mbarrier_arrive(s.barrier)
            before, before_column = item, column
            column = column + TOKENS
            if column >= s.groups.sFirst[place + 1] - s.groups.sFirst[place]:
                column, item = Int32(0), item + 1
            parity = parity ^ 1
        if before >= 0:
            cute.arch.mbarrier_wait(s.barrier, parity ^ 1)
            self._activate(parity ^ 1, before, before_column)

    @cute.jit
    def _chunk(self, slot: Int32, exponent: Uint32, chunk: cutlass.Constexpr) -> Int32:
        """Add a chunk's products and request another chunk for its slot."""
        c, rSums = self.config, self.rSums
        words, scales = self.stage.ring.take(slot)
        sums = [rSums[i] for i in range(BLOCK_ACCUMULATORS)]
        for block in cutlass.range_constexpr(CHUNK_GROUPS):
            group = chunk * CHUNK_GROUPS + block
            token = [self.rToken[word, group] for word in range(LANE_WORDS)]
            if cutlass.const_expr(c.wide_scales):
                sums = multiply_block(sums, words[block], scales[block], token, wide_scales=True)
            else:
                sums = multiply_scaled_block(sums, words[block], scales[block], token, exponent)
        for i in cutlass.range_constexpr(BLOCK_ACCUMULATORS):
            rSums[i] = sums[i]
        self.stream.request(slot, begins_stretch(chunk, c.ring_chunks, c.gate_up_chunks))
        return self.stage.ring.following(slot)

    @cute.jit
    def _load_tokens(self, row: Int32) -> Uint32:
        """Load the lane's token at its warp's columns; returns the exponent of sums with it."""
        c, s, rToken = self.config, self.stage, self.rToken
        first = s.warp % c.team_warps * c.gate_up_chunks * _CHUNK_VECTORS + s.lane % 4
        gToken = self.mLatent[row, None]
        for group in cutlass.range_constexpr(c.gate_up_chunks * CHUNK_GROUPS):
            vector = cute.local_tile(gToken, (LANE_WORDS,), (first + 4 * group,))
            cute.autovec_copy(vector, rToken[None, group])
        exponent = Uint32(0)
        if cutlass.const_expr(not c.wide_scales):
            large = Uint32(0)
            for group in cutlass.range_constexpr(c.gate_up_chunks * CHUNK_GROUPS):
                for word in cutlass.range_constexpr(LANE_WORDS):
                    large = large | exceeds_scaled_range(rToken[word, group])
            too_large = cute.arch.vote_any_sync(large != Uint32(0))
            shift = Int32(0) if too_large else Int32(ACTIVATION_EXPONENT)
            factor = scaling_factor(shift)
            for group in cutlass.range_constexpr(c.gate_up_chunks * CHUNK_GROUPS):
                for word in cutlass.range_constexpr(LANE_WORDS):
                    rToken[word, group] = scaled_activation(rToken[word, group], factor)
            exponent = sum_exponent(shift)
        return exponent

    @cute.jit
    def _activate(self, parity: Int32, item: Int32, column: Int32):
        """Add the warps' sums in order, activate, store 16 inner columns of up to eight tokens."""
        c, s, mInner = self.config, self.stage, self.mInner
        i = s.warp % c.team_warps
        team = s.warp - i
        place = item // c.gate_up_tiles
        tokens = s.groups.sFirst[place + 1] - s.groups.sFirst[place]
        token = column + 2 * (s.lane % 4) + i % 2
        if i < BLOCK_ACCUMULATORS // 2 and token < tokens:
            gate, up = Float32(0.0), Float32(0.0)
            for warp in cutlass.range_constexpr(c.team_warps):
                gate = gate + s.sSums[s.lane, i, team + warp, parity]
                up = up + s.sSums[s.lane, i + BLOCK_ACCUMULATORS // 2, team + warp, parity]
            active = situ(gate, up, c.situ_beta, c.situ_linear_beta) * self.inner_factor
            row = (item - place * c.gate_up_tiles) * _HALF_ROWS + s.lane // 4 + 8 * (i // 2)
            mInner[s.groups.sFirst[place] + token, row] = active.to(BFloat16)

# mypy: ignore-errors
# ruff: noqa: N806, SIM102
# CuTe's names for memory spaces, and device code that branches at compile time.
"""The line of weight chunks that a warp will use, from which its ring is filled.

Its place in the line is ahead of what the warp works on by the length of the ring: while the last
tiles of the first matrix are multiplied, the warp's first chunks of the second are requested.
"""

import cutlass
from cutlass import Int32, Int64, cute

from k3decode.device.weight_ring import SLOT_BYTES, lane_source
from k3decode.mxfp4_blocks import CHUNK_BYTES
from k3decode.ops.experts.config import BODY_CHUNKS, ExpertsConfig
from k3decode.ops.experts.schedule import begins_stretch, may_begin_stretch
from k3decode.ops.experts.stage import Stage

__all__ = ["WeightLine"]

# What is remembered: whether there is anything, chunks left of the stretch at hand, and the stretch
# that comes next: tile, place of the expert, first of its tokens; passes left of the first matrix,
# and whether the second has begun.
_USED, _LEFT, _TILE, _PLACE, _COLUMN, _PASSES, _SECOND = range(7)
_NO_END = 1 << 30


class WeightLine:
    """A warp's columns of its team's tiles, then its experts of output tiles."""

    def __init__(  # noqa: PLR0917
        self,
        config: ExpertsConfig,
        stage: Stage,
        gate_up: cute.Pointer,
        down: cute.Pointer,
        share: tuple[Int32, Int32, Int32],
        tile: Int32,
        step: Int32,
        chosen: Int32,
    ) -> None:
        """Take what the warp will need.

        Args:
            config: variant.
            stage: shared memory.
            gate_up: first matrix of all experts.
            down: second matrix.
            share: first tile, first token and passes of the team, as `team_share` gives them.
            tile: first output tile; the others are each `step` behind the one before.
            step: see `tile`.
            chosen: experts.
        """
        self.config = config
        self.stage = stage
        self.gate_up = gate_up
        self.down = down
        self.first_tile = tile
        self.step = step
        self.chosen = chosen
        self.rState = cute.make_rmem_tensor((7,), Int32)
        self.rSource = cute.make_rmem_tensor((1,), Int64)
        self.rState.fill(0)
        self.rSource[0] = gate_up.toint()
        self.rState[_TILE], self.rState[_COLUMN], self.rState[_PASSES] = share
        self.rState[_PLACE] = stage.warp

    @cute.jit
    def fill(self):
        """Request the first chunks, for all slots."""
        for chunk in cutlass.range(self.config.ring_chunks, unroll=1):
            if self.rState[_LEFT] == 0:
                self._advance()
            self._request(chunk * SLOT_BYTES)

    @cute.jit
    def request(self, slot: Int32, chunk: cutlass.Constexpr):
        """Request the next chunk for the slot of a chunk of the first matrix."""
        c = self.config
        begins = may_begin_stretch(chunk, c.ring_chunks, c.gate_up_chunks, c.down_chunks)
        if cutlass.const_expr(begins):
            if self.rState[_LEFT] == 0:
                self._advance()
        self._request(slot)

    @cute.jit
    def request_down(self, slot: Int32, chunk: cutlass.Constexpr):
        """Request the next chunk for the slot of a chunk of a body of the second matrix."""
        # Bodies are stretches, or parts of one.
        if cutlass.const_expr(begins_stretch(chunk, self.config.ring_chunks, BODY_CHUNKS)):
            if self.rState[_LEFT] == 0:
                self._advance_down()
        self._request(slot)

    @cute.jit
    def _request(self, slot: Int32):
        rState, rSource = self.rState, self.rSource
        self.stage.ring.request(slot, rSource[0], used=rState[_USED])
        rState[_LEFT] = rState[_LEFT] - 1
        rSource[0] = rSource[0] + CHUNK_BYTES

    @cute.jit
    def _advance(self):
        """Take the next stretch of either matrix."""
        rState = self.rState
        if rState[_SECOND] == 0:
            if rState[_PASSES] > 0:
                self._advance_gate_up()
            else:
                rState[_SECOND] = 1
                rState[_TILE] = self.first_tile
                rState[_COLUMN] = 0
        if rState[_LEFT] == 0:
            self._advance_down()

    @cute.jit
    def _advance_gate_up(self):
        c, s, rState = self.config, self.stage, self.rState
        tile, column = rState[_TILE], rState[_COLUMN]
        place = tile // c.gate_up_tiles
        stored = s.groups.sExpert[place] * c.gate_up_tiles + tile - place * c.gate_up_tiles
        chunk = (Int64(stored) * c.team_warps + s.warp % c.team_warps) * c.gate_up_chunks
        if cutlass.const_expr(c.one_pass):
            tile = tile + 1
        else:
            column = column + c.pass_tokens
            if column >= s.groups.sFirst[place + 1] - s.groups.sFirst[place]:
                column, tile = Int32(0), tile + 1
        self._begin(self.gate_up, Int32(1), chunk, Int32(c.gate_up_chunks))
        rState[_TILE], rState[_COLUMN] = tile, column
        rState[_PASSES] = rState[_PASSES] - 1

    @cute.jit
    def _advance_down(self):
        c, s, rState = self.config, self.stage, self.rState
        tile, place, column = rState[_TILE], rState[_PLACE], rState[_COLUMN]
        used, chunk = Int32(0), Int64(0)
        if place >= self.chosen:
            tile, place = tile + self.step, s.warp
        if tile < c.down_tiles and place < self.chosen:
            used = Int32(1)
            chunk = Int64(s.groups.sExpert[place] * c.down_tiles + tile) * c.down_chunks
            if cutlass.const_expr(c.one_pass):
                place = place + c.warps
            else:
                column = column + c.pass_tokens
                if column >= s.groups.sFirst[place + 1] - s.groups.sFirst[place]:
                    column, place = Int32(0), place + c.warps
        self._begin(self.down, used, chunk, Int32(c.down_chunks))
        rState[_TILE], rState[_PLACE], rState[_COLUMN] = tile, place, column

    @cute.jit
    def _begin(self, weights: cute.Pointer, used: Int32, chunk: Int64, chunks: Int32):
        """Take a stretch of neighbouring chunks; without one, nothing is read any more."""
        rState, rSource = self.rState, self.rSource
        rSource[0] = lane_source(weights.toint() + chunk * CHUNK_BYTES)
        rState[_USED] = used
        rState[_LEFT] = chunks if used == 1 else Int32(_NO_END)

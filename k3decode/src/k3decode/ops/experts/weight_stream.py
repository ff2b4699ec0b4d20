# mypy: ignore-errors
# ruff: noqa: N806, SIM102
# CuTe's names for memory spaces, and device code that branches at compile time.
"""The line of weight chunks that a warp will use, from which its ring is filled.

Its place in the line is ahead of what the warp works on by the length of the ring. Each half of the
work has a line of its own: the second starts when the CTA has read all it needs for the first,
since what all CTAs wait for is the slowest reader of the first matrix.
"""

import cutlass
from cutlass import Int32, Int64, cute

from k3decode.device.weight_ring import SLOT_BYTES, lane_source
from k3decode.mxfp4_blocks import CHUNK_BYTES
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.stage import TOKENS, Stage

__all__ = ["DownStream", "GateUpStream"]

# What is remembered: whether there is anything, chunks left of the stretch at hand, and the stretch
# that comes next: tile, place of the expert, first of its tokens.
_USED, _LEFT, _TILE, _PLACE, _COLUMN = range(5)
_NO_END = 1 << 30


class _WeightStream:
    """Where the next chunk is."""

    def __init__(
        self, config: ExpertsConfig, stage: Stage, weights: cute.Pointer, tile: Int32
    ) -> None:
        self.config = config
        self.stage = stage
        self.weights = weights
        self.rState = cute.make_rmem_tensor((5,), Int32)
        self.rSource = cute.make_rmem_tensor((1,), Int64)
        self.rState.fill(0)
        self.rSource[0] = weights.toint()
        self.rState[_TILE], self.rState[_PLACE] = tile, stage.warp

    @cute.jit
    def fill(self):
        """Request the first chunks, for all slots."""
        for chunk in cutlass.range(self.config.ring_chunks, unroll=1):
            self.request(chunk * SLOT_BYTES, True)

    @cute.jit
    def request(self, slot: Int32, may_begin: cutlass.Constexpr):
        """Request the next chunk for a slot; a stretch begins only where it `may_begin`."""
        rState, rSource = self.rState, self.rSource
        if cutlass.const_expr(may_begin):
            if rState[_LEFT] == 0:
                self._advance()
        self.stage.ring.request(slot, rSource[0], used=rState[_USED])
        rState[_LEFT] = rState[_LEFT] - 1
        rSource[0] = rSource[0] + CHUNK_BYTES

    @cute.jit
    def _begin(self, used: Int32, chunk: Int64, chunks: Int32):
        """Take a stretch of neighbouring chunks; without one, nothing is read any more."""
        rState, rSource = self.rState, self.rSource
        rSource[0] = lane_source(self.weights.toint() + chunk * CHUNK_BYTES)
        rState[_USED] = used
        rState[_LEFT] = chunks if used == 1 else Int32(_NO_END)


class GateUpStream(_WeightStream):
    """Of tiles of the first matrix, the columns of a warp of a team."""

    def __init__(
        self,
        config: ExpertsConfig,
        stage: Stage,
        weights: cute.Pointer,
        tile: Int32,
        end: Int32,
    ) -> None:
        """From one of the chosen experts' tiles to the one before `end`."""
        super().__init__(config, stage, weights, tile)
        self.end = end

    @cute.jit
    def _advance(self):
        c, s, rState = self.config, self.stage, self.rState
        tile, column, used, chunk = rState[_TILE], rState[_COLUMN], Int32(0), Int64(0)
        if tile < self.end:
            place = tile // c.gate_up_tiles
            stored = s.groups.sExpert[place] * c.gate_up_tiles + tile - place * c.gate_up_tiles
            used = Int32(1)
            chunk = (Int64(stored) * c.team_warps + s.warp % c.team_warps) * c.gate_up_chunks
            column = column + TOKENS
            if column >= s.groups.sFirst[place + 1] - s.groups.sFirst[place]:
                column, tile = Int32(0), tile + 1
        self._begin(used, chunk, Int32(c.gate_up_chunks))
        rState[_TILE], rState[_COLUMN] = tile, column


class DownStream(_WeightStream):
    """Of output tiles, the experts of a warp."""

    def __init__(  # noqa: PLR0917
        self,
        config: ExpertsConfig,
        stage: Stage,
        weights: cute.Pointer,
        tile: Int32,
        step: Int32,
        chosen: Int32,
    ) -> None:
        """From tile `tile` on every `step`-th one, of the chosen experts."""
        super().__init__(config, stage, weights, tile)
        self.step = step
        self.chosen = chosen

    @cute.jit
    def _advance(self):
        c, s, rState = self.config, self.stage, self.rState
        tile, place, column = rState[_TILE], rState[_PLACE], rState[_COLUMN]
        used, chunk = Int32(0), Int64(0)
        if place >= self.chosen:
            tile, place = tile + self.step, s.warp
        if tile < c.down_tiles and place < self.chosen:
            used = Int32(1)
            chunk = Int64(s.groups.sExpert[place] * c.down_tiles + tile) * c.down_chunks
            column = column + TOKENS
            if column >= s.groups.sFirst[place + 1] - s.groups.sFirst[place]:
                column, place = Int32(0), place + c.warps
        self._begin(used, chunk, Int32(c.down_chunks))
        rState[_TILE], rState[_PLACE], rState[_COLUMN] = tile, place, column

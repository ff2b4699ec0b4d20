# mypy: ignore-errors
"""What both halves of the experts' kernel know of their CTA: shared memory, warp and lane."""

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE
from k3decode.device.slot_groups import SlotGroups
from k3decode.device.weight_ring import SLOT_BYTES, LaneRing
from k3decode.mxfp4_blocks import BLOCK_ROWS
from k3decode.ops.experts.config import MAX_PASS, ExpertsConfig
from k3decode.ops.experts.staged_tokens import StagedTokens

__all__ = ["LANE_WORDS", "Stage", "token_position"]

LANE_WORDS = 4
"""32-bit words of activations that one lane reads of a group: 8 BF16 values."""


class Stage:
    """Shared memory of a CTA and this thread's place in it."""

    def __init__(self, config: ExpertsConfig) -> None:
        c = config
        self.config = c
        smem = SmemAllocator()
        self.lane = cute.arch.lane_idx()
        self.warp = cute.arch.warp_idx()
        # One piece with three uses, each over before the next begins: see `shared_floats`.
        piece = smem.allocate(4 * c.shared_floats, 128)
        floats = cute.recast_ptr(piece, dtype=Float32)
        sums = cute.make_ordered_layout((WARP_SIZE, c.pass_tokens, c.warps, 2), order=(0, 1, 2, 3))
        self.sSums = cute.make_tensor(floats, sums)
        """Sums of each warp's columns, of two tiles."""
        outputs = cute.make_layout((c.max_slots, BLOCK_ROWS), stride=(BLOCK_ROWS, 1))
        self.sOutputs = cute.make_tensor(floats, outputs)
        """Weighted outputs of each slot, of one tile."""
        if cutlass.const_expr(c.stages_tokens):
            self.tokens = StagedTokens(smem, c)
        rings = smem.allocate(c.warps * c.ring_chunks * SLOT_BYTES, 128)
        own = Int32(rings.toint()) + self.warp * (c.ring_chunks * SLOT_BYTES)
        self.ring = LaneRing(own, c.ring_chunks)
        self.groups = SlotGroups(
            smem,
            piece,
            num_experts=c.num_experts,
            top_k=c.top_k,
            max_slots=c.max_slots,
            threads=c.threads,
        )
        barriers = smem.allocate_tensor(Int64, cute.make_layout(c.teams), 8)
        self.barriers = barriers.iterator
        self.lane_token = self.lane // (MAX_PASS // c.lane_columns)
        """Of a pass, whose activations this lane has."""
        self.barrier = self.barriers + self.warp // c.team_warps
        """Of this warp's team: its sums of a tile are in shared memory."""


@cute.jit
def token_position(stage: cutlass.Constexpr, place: Int32, token: Int32) -> Int32:
    """Position of an expert's token; beyond the tokens the last one."""
    groups = stage.groups
    position = groups.sFirst[place] + token
    return cutlass.min(position, groups.sFirst[place + 1] - 1)

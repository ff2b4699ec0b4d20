# mypy: ignore-errors
"""What both halves of the experts' kernel know of their CTA: shared memory, warp and lane."""

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.mxfp4 import BLOCK_ACCUMULATORS
from k3decode.device.row_io import WARP_SIZE
from k3decode.device.slot_groups import SlotGroups
from k3decode.device.weight_ring import SLOT_BYTES, LaneRing
from k3decode.mxfp4_blocks import BLOCK_ROWS
from k3decode.ops.experts.config import ExpertsConfig

__all__ = ["LANE_WORDS", "TOKENS", "Stage", "token_position"]

TOKENS = 8
"""Tokens of one MMA."""

LANE_WORDS = 4
"""32-bit words of activations that one lane reads of a group: 8 BF16 values."""


class Stage:
    """Shared memory of a CTA and this thread's place in it."""

    def __init__(self, config: ExpertsConfig) -> None:
        c = config
        smem = SmemAllocator()
        self.lane = cute.arch.lane_idx()
        self.warp = cute.arch.warp_idx()
        # One piece with three uses, each over before the next begins: see `shared_floats`.
        piece = smem.allocate(4 * c.shared_floats, 128)
        floats = cute.recast_ptr(piece, dtype=Float32)
        sums = cute.make_ordered_layout(
            (WARP_SIZE, BLOCK_ACCUMULATORS, c.warps, 2), order=(0, 1, 2, 3)
        )
        self.sSums = cute.make_tensor(floats, sums)
        """Sums of each warp's columns, of two tiles."""
        outputs = cute.make_layout((c.max_slots, BLOCK_ROWS), stride=(BLOCK_ROWS, 1))
        self.sOutputs = cute.make_tensor(floats, outputs)
        """Weighted outputs of each slot, of one tile."""
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
        self.barrier = self.barriers + self.warp // c.team_warps
        """Of this warp's team: its sums of a tile are in shared memory."""


@cute.jit
def token_position(groups: cutlass.Constexpr, place: Int32, column: Int32) -> Int32:
    """Position of the lane's token; beyond the tokens the last one, which another lane has too."""
    position = groups.sFirst[place] + column + cute.arch.lane_idx() // 4
    return cutlass.min(position, groups.sFirst[place + 1] - 1)

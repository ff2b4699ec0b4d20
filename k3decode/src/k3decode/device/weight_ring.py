# mypy: ignore-errors
"""A lane's own ring of weight chunks in shared memory, which asynchronous copies fill.

A lane reads back what it copied itself, so neither barrier nor warp stands between weights and
their use. The order of bytes in a chunk is that of `mxfp4_blocks`.
"""

from cutlass import Int32, Int64, Uint32, cute

from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.mxfp4 import BLOCK_WORDS
from k3decode.device.row_io import WARP_SIZE
from k3decode.mxfp4_blocks import BLOCK_BYTES, CHUNK_GROUPS

__all__ = ["SLOT_BYTES", "LaneRing", "lane_source"]

_SCALES_AT = CHUNK_GROUPS * BLOCK_BYTES
_LANE_SCALE_BYTES = 4 * CHUNK_GROUPS

SLOT_BYTES = _SCALES_AT + WARP_SIZE * _LANE_SCALE_BYTES
"""Shared memory of one chunk of a warp: four lanes use the same scales, and each has its own."""


class LaneRing:
    """Where this lane's part of the warp's slots is. A slot is named by its offset in the ring."""

    def __init__(self, memory: Int32, chunks: int) -> None:
        """Take a warp's piece of shared memory.

        Args:
            memory: shared address, a multiple of 16, of `chunks` slots.
            chunks: slots of the ring.
        """
        lane = cute.arch.lane_idx()
        self.chunks = chunks
        self.words_at = memory + lane * COPY_BYTES
        self.scales_at = memory + lane * _LANE_SCALE_BYTES + _SCALES_AT
        self.to_scales = lane // 4 * _LANE_SCALE_BYTES + _SCALES_AT - lane * COPY_BYTES

    @cute.jit
    def following(self, slot: Int32) -> Int32:
        """The slot behind one."""
        after = slot + SLOT_BYTES
        return Int32(0) if after == self.chunks * SLOT_BYTES else after

    def request(self, slot: Int32, words: Int64, *, used: Int32) -> None:
        """Request the lane's part of one chunk as a group of copies.

        Args:
            slot: filled once the lane has waited for the group.
            words: `lane_source` of the chunk.
            used: 1; 0 writes zeros and reads nothing.
        """
        for block in range(CHUNK_GROUPS):
            places = (block * BLOCK_BYTES, block * BLOCK_BYTES)
            request_copy(self.words_at + slot, words, used * COPY_BYTES, places)
        cute.arch.inline_ptx(
            f"cp.async.ca.shared.global [{{$r0}}], [{{$r1}}], {_LANE_SCALE_BYTES}, {{$r2}};",
            read_only_args=[
                self.scales_at + slot,
                words + self.to_scales,
                used * _LANE_SCALE_BYTES,
            ],
        )
        cute.arch.cp_async_commit_group()

    def take(self, slot: Int32) -> tuple[list, list]:
        """Wait for the oldest of as many groups as there are slots, and read its chunk.

        Returns:
            The lane's four words of each block, and its word of scales of each.
        """
        cute.arch.cp_async_wait_group(self.chunks - 1)
        blocks = []
        for block in range(CHUNK_GROUPS):
            found = cute.arch.inline_ptx(
                f"ld.shared.v4.b32 {{{{$w0}}, {{$w1}}, {{$w2}}, {{$w3}}}}, "
                f"[{{$r0}}+{block * BLOCK_BYTES}];",
                write_only_types=[Uint32] * BLOCK_WORDS,
                read_only_args=[self.words_at + slot],
            )
            blocks.append(list(found))
        scales = cute.arch.inline_ptx(
            "ld.shared.v2.b32 {{$w0}, {$w1}}, [{$r0}];",
            write_only_types=[Uint32] * CHUNK_GROUPS,
            read_only_args=[self.scales_at + slot],
        )
        return blocks, list(scales)


def lane_source(chunk: Int64) -> Int64:
    """Global address of the lane's first words of a chunk at an address."""
    return chunk + cute.arch.lane_idx() * COPY_BYTES

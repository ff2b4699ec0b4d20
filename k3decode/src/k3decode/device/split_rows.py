# mypy: ignore-errors
"""Who attends to which tokens: the tiles of all rows in one line, cut into equal parts.

Every warp works it out for itself from the lengths: lane i keeps what concerns rows i and i + 32.
`ops/mla_decode/schedule.py` is the same arithmetic on the host.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Int32, cute

from k3decode.device.row_io import WARP_SIZE

__all__ = ["SplitRows", "end_of", "row_of", "split_rows", "start_of", "visible_in"]

_SCAN_STEPS = 5


@dataclass
class SplitRows:
    """Tiles of up to 64 rows, in registers of a warp."""

    ends: list
    """Tiles of the line up to row lane and up to row lane + 32, those rows' own included."""
    visible: list
    """Tokens that rows lane and lane + 32 attend to."""
    quota: Int32
    """Tiles of every part but the last."""
    tiles: Int32
    """Tiles of all rows."""


@cute.jit
def split_rows(
    mLengths: cute.Tensor,
    rows: Int32,
    tokens_per_request: Int32,
    tile_tokens: Int32,
    fewest_tiles: Int32,
    parts: Int32,
):
    """Cut; `mLengths` [requests] counts the tokens of this step; call it with whole warps."""
    lane = cute.arch.lane_idx()
    ends = []
    visible = []
    before = Int32(0)
    for half in cutlass.range_constexpr(2):
        row = lane + WARP_SIZE * half
        tokens = Int32(0)
        if row < rows:
            later = tokens_per_request - 1 - row % tokens_per_request
            tokens = cutlass.max(mLengths[row // tokens_per_request] - later, 0)
        end = (tokens + tile_tokens - 1) // tile_tokens
        for step in cutlass.range_constexpr(_SCAN_STEPS):
            above = cute.arch.shuffle_sync_up(end, 1 << step)
            end = end + above if lane >= 1 << step else end
        end = end + before
        before = cute.arch.shuffle_sync(end, WARP_SIZE - 1)
        ends.append(end)
        visible.append(tokens)
    quota = cutlass.max((before + parts - 1) // parts, fewest_tiles)
    return SplitRows(ends=ends, visible=visible, quota=quota, tiles=before)


@cute.jit
def row_of(split: SplitRows, tile: Int32) -> Int32:
    """Row that a tile of the line belongs to; rows without tokens have none."""
    row = Int32(0)
    for half in cutlass.range_constexpr(2):
        row = row + cute.arch.popc(cute.arch.vote_ballot_sync(split.ends[half] <= tile))
    return row


@cute.jit
def end_of(split: SplitRows, row: Int32) -> Int32:
    """Tiles of the line up to a row, its own included."""
    return _of_row(split.ends, row)


@cute.jit
def start_of(split: SplitRows, row: Int32) -> Int32:
    """Tiles of the line before a row."""
    before = _of_row(split.ends, cutlass.max(row - 1, 0))
    return before if row > 0 else Int32(0)


@cute.jit
def visible_in(split: SplitRows, row: Int32) -> Int32:
    """Tokens that a row attends to."""
    return _of_row(split.visible, row)


@cute.jit
def _of_row(values: list, row: Int32) -> Int32:
    """Value that the lane of a row keeps."""
    lower = cute.arch.shuffle_sync(values[0], row % WARP_SIZE)
    upper = cute.arch.shuffle_sync(values[1], row % WARP_SIZE)
    return lower if row < WARP_SIZE else upper

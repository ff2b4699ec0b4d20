# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Where a team begins in the first half, and with how much work.

Work is counted in passes: a tile of an expert takes one for every so many of its tokens. The passes
of the chosen experts stand in a line, expert after expert and tile after tile, which is cut into
equal stretches. Where no expert has more tokens than a pass takes, passes are tiles.
"""

import cutlass
from cutlass import Int32, cute

from k3decode.device.row_io import WARP_SIZE
from k3decode.ops.experts.schedule import first_of_share

__all__ = ["team_share"]

_FULL_WARP = 0xFFFFFFFF


@cute.jit
def team_share(
    stage: cutlass.Constexpr, chosen: Int32, rows: Int32, teams: Int32, team: Int32
) -> tuple[Int32, Int32, Int32]:
    """First tile of a team, first of its tokens, and the number of passes."""
    c = stage.config
    passes = chosen
    if rows > c.pass_tokens:
        passes = _passes(stage, chosen)
    first = first_of_share(passes * c.gate_up_tiles, teams, team)
    count = first_of_share(passes * c.gate_up_tiles, teams, team + 1) - first
    item, column = first, Int32(0)
    if passes > chosen:
        item, column = _place_of(stage, chosen, first)
    return item, column, count


@cute.jit
def _passes_of(stage: cutlass.Constexpr, chosen: Int32, place: Int32) -> Int32:
    """Passes of one tile of an expert; none beyond the last expert."""
    passes = Int32(0)
    if place < chosen:
        tokens = stage.groups.sFirst[place + 1] - stage.groups.sFirst[place]
        passes = (tokens + stage.config.pass_tokens - 1) // stage.config.pass_tokens
    return passes


@cute.jit
def _passes(stage: cutlass.Constexpr, chosen: Int32) -> Int32:
    """Passes of one tile of every expert, all together; every warp finds out for itself."""
    total, place = Int32(0), stage.lane
    while place - stage.lane < chosen:
        total = total + _passes_of(stage, chosen, place)
        place = place + WARP_SIZE
    for step in cutlass.range_constexpr(5):
        total = total + cute.arch.shuffle_sync_bfly(total, offset=1 << step)
    return total


@cute.jit
def _place_of(stage: cutlass.Constexpr, chosen: Int32, target: Int32) -> tuple[Int32, Int32]:
    """Tile and first token of a pass in the line."""
    c, lane = stage.config, stage.lane
    item, column = Int32(0), Int32(0)
    first, before = Int32(0), Int32(0)
    while first < chosen:
        own = _passes_of(stage, chosen, first + lane)
        upto = own
        for step in cutlass.range_constexpr(5):
            other = cute.arch.shuffle_sync_up(upto, 1 << step, mask_and_clamp=0)
            upto = upto + other if lane >= 1 << step else upto
        begin = (before + upto - own) * c.gate_up_tiles
        inside = target >= begin and target < begin + own * c.gate_up_tiles
        holders = Int32(cute.arch.vote_ballot_sync(inside))
        if holders != 0:
            holder = cute.arch.popc((holders & (0 - holders)) - 1)
            passes = cute.arch.shuffle_sync(own, holder)
            within = target - cute.arch.shuffle_sync(begin, holder)
            tile = within // passes
            item = (first + holder) * c.gate_up_tiles + tile
            column = (within - tile * passes) * c.pass_tokens
        before = before + cute.arch.shuffle_sync(upto, WARP_SIZE - 1)
        first = first + WARP_SIZE
    return item, column

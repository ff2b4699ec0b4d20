"""Mutants of the op `experts`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "experts", "share_forgotten", "total + share * sums[2 * j + i]", "total + sums[2 * j + i]"
    ),
    Mutant("experts", "gate_and_up_swapped", "situ(gate, up,", "situ(up, gate,"),
    Mutant(
        "experts",
        "second_chunk_takes_the_first_columns",
        "rAhead[1], gToken, start + chunk)",
        "rAhead[1], gToken, start)",
    ),
    Mutant(
        "experts",
        "tokens_beyond_eight_take_the_first",
        "groups.sFirst[place] + column + cute.arch.lane_idx() // 4",
        "groups.sFirst[place] + cute.arch.lane_idx() // 4",
    ),
    Mutant(
        "experts",
        "experts_of_the_last_warp_forgotten",
        "range_constexpr(c.down_warps)",
        "range_constexpr(c.down_warps - 1)",
    ),
)

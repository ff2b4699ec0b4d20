"""Mutants of the op `experts`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant("experts", "share_forgotten", "= share * self.rSums[", "= self.rSums[", file="down.py"),
    Mutant("experts", "gate_and_up_swapped", "situ(gate, up,", "situ(up, gate,", file="gate_up.py"),
    Mutant(
        "experts",
        "second_body_takes_the_first_columns",
        "at = at + _BODY_BYTES if body + 1 < bodies else following",
        "at = at if body + 1 < bodies else following",
        file="down.py",
    ),
    Mutant(
        "experts",
        "tokens_beyond_eight_take_the_first",
        "position = groups.sFirst[place] + column + cute.arch.lane_idx() // 4",
        "position = groups.sFirst[place] + cute.arch.lane_idx() // 4",
        file="stage.py",
    ),
    Mutant(
        "experts",
        "columns_of_the_last_warp_forgotten",
        "range_constexpr(c.team_warps)",
        "range_constexpr(c.team_warps - 1)",
        file="gate_up.py",
    ),
    Mutant(
        "experts",
        "nobody_waits_for_the_first_half_of_others",
        "while (seen ^ found) >= 0:",
        "while (seen ^ found) == 1:",
    ),
)

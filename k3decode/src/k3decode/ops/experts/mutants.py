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
        "tokens_of_later_passes_take_the_first",
        "wanted = self._row(place, column + s.lane_token)",
        "wanted = self._row(place, s.lane_token)",
        file="gate_up.py",
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
    Mutant(
        "experts",
        "second_group_takes_the_first_columns",
        "within = lane // 4 % 2 * _GROUP_BYTES + lane % 4 * _VECTOR_BYTES",
        "within = lane % 4 * _VECTOR_BYTES",
        file="staged_tokens.py",
    ),
    Mutant(
        "experts",
        "every_row_has_the_power_of_the_first",
        "self.sExponents[row * team_warps + ",
        "self.sExponents[0 * team_warps + ",
        file="staged_tokens.py",
    ),
    Mutant(
        "experts",
        "team_begins_with_the_first_tokens",
        "column = (within - tile * passes) * c.pass_tokens",
        "column = Int32(0)",
        file="team_share.py",
    ),
    Mutant(
        "experts",
        "second_matrix_begins_with_the_first_tile",
        "rState[_TILE] = self.first_tile",
        "rState[_TILE] = 0",
        file="weight_stream.py",
    ),
    Mutant(
        "experts",
        "shares_of_few_slots_unsorted",
        "sShare[position] = share",
        "sShare[lane] = share",
        file="../../device/slot_groups.py",
    ),
    Mutant(
        "experts",
        "shares_of_many_slots_unsorted",
        "sShare[position] = rShare[i]",
        "sShare[slot] = rShare[i]",
        file="../../device/slot_groups.py",
    ),
    Mutant(
        "experts",
        "blocks_of_a_chunk_swapped",
        "tiles[block][2 * row + block]",
        "tiles[block][2 * row + 1 - block]",
        file="../../device/mxfp4.py",
    ),
)

"""Mutants of the op `router`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant("router", "not_renormalised", "score / (total + _SUM_FLOOR)", "score"),
    Mutant(
        "router",
        "ties_to_the_higher_id",
        "cute.arch.clz(cute.arch.brev(holders))",
        "31 - cute.arch.clz(holders)",
    ),
    Mutant(
        "router",
        "list_not_moved_on",
        "keys[j] = following if moves else keys[j]",
        "keys[j] = Int32(_TAKEN) if moves else keys[j]",
    ),
    Mutant(
        "router",
        "candidates_of_one_warp_over_those_of_another",
        "place = before + places[j]",
        "place = places[j]",
    ),
    Mutant(
        "router",
        "equal_candidate_comes_before",
        "others[j] > mine",
        "others[j] >= mine",
    ),
    Mutant(
        "router",
        "candidate_with_the_least_score_left_out",
        "if keys[j] >= least and place < _CANDIDATES:",
        "if keys[j] > least and place < _CANDIDATES:",
    ),
)

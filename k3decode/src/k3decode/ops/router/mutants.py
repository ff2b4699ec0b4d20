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
)

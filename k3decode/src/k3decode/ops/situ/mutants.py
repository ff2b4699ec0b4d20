"""Mutants of the op `situ`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "situ",
        "gate_taken_twice",
        "mGateUp[row, None], vectors + vector",
        "mGateUp[row, None], vector",
    ),
    Mutant("situ", "gate_and_up_swapped", "situ(gate, up,", "situ(up, gate,"),
)

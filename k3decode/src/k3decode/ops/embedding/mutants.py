"""Mutants of the op `embedding`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "embedding",
        "row_off_by_one",
        "mTokens[row] - first_token",
        "mTokens[row] - first_token + 1",
    ),
    Mutant("embedding", "zeros_forgotten", "rRow.fill(0.0)", "rRow.fill(1.0)"),
)

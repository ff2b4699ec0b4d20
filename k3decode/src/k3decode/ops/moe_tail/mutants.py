"""Mutants of the op `moe_tail`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant("moe_tail", "shared_subtracted", "(routed + shared)", "(routed - shared)"),
    Mutant(
        "moe_tail",
        "first_part_only",
        "vector = part * self.config.threads + tid",
        "vector = part * 0 + tid",
    ),
)

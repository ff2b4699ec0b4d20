"""Mutants of the op `latent_norm`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant("latent_norm", "eps_forgotten", "(1.0 / c.width) + c.eps", "(1.0 / c.width)"),
    Mutant("latent_norm", "last_warp_forgotten", "if lane < c.warps:", "if lane < c.warps - 1:"),
)

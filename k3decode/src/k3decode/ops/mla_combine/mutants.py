"""Mutants of the op `mla_combine`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mla_combine",
        "weights_not_normalised",
        "weights[j] / total",
        "weights[j]",
    ),
    Mutant(
        "mla_combine",
        "last_partial_forgotten",
        "split.quota - first + 1 if end > start",
        "split.quota - first if end > start",
    ),
    Mutant(
        "mla_combine",
        "gate_forgotten",
        "value.to(BFloat16).to(Float32) * gate",
        "value.to(BFloat16).to(Float32)",
    ),
    Mutant(
        "mla_combine",
        "empty_row_gated",
        "gated if sLive[i] > 0 else Float32(0.0)",
        "gated if sLive[i] > -1 else Float32(0.0)",
    ),
)

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
    Mutant(
        "mla_combine",
        "many_rows_of_a_warp_alike",
        "row = warp * c.warp_rows + i\n            _,",
        "row = warp * c.warp_rows\n            _,",
        file="../mla_combine_many/kernel.py",
    ),
    Mutant(
        "mla_combine",
        "many_later_partials_forgotten",
        "cutlass.range(c.ahead, most, c.ahead)",
        "cutlass.range(c.ahead, 0, c.ahead)",
        file="../mla_combine_many/kernel.py",
    ),
    Mutant(
        "mla_combine",
        "many_gate_forgotten",
        "gated = value * gate",
        "gated = value",
        file="../mla_combine_many/kernel.py",
    ),
    Mutant(
        "mla_combine",
        "many_infinite_rest",
        "rest if finite else Float32(0.0)",
        "rest",
        file="../mla_combine_many/kernel.py",
    ),
)

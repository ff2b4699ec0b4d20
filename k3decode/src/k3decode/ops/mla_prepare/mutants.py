"""Mutants of the op `mla_prepare`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mla_prepare",
        "neighbouring_place_written",
        "Int32(slot - page * page_tokens)",
        "Int32(slot - page * page_tokens) ^ 1",
    ),
    Mutant(
        "mla_prepare",
        "null_slot_served",
        "slot = mSlots[row]",
        "slot = cutlass.max(mSlots[row], Int64(0))",
    ),
    Mutant(
        "mla_prepare",
        "mean_of_the_other_norm",
        "c.latent_warps, c.latent)",
        "c.latent_warps, c.query_rank)",
    ),
    Mutant(
        "mla_prepare",
        "cache_scale_forgotten",
        ".to(Float32) / cache_scale",
        ".to(Float32)",
    ),
)

"""Mutants of the op `attn_res`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "attn_res",
        "prefix_replaced_instead_of_added",
        "rPrefix.store(total.to(BFloat16))",
        "rPrefix.store(rPending.load())",
    ),
    Mutant(
        "attn_res",
        "scores_not_normalised",
        "score = dot * cute",
        "score = dot + 0 * cute",
    ),
    Mutant(
        "attn_res",
        "neighbouring_block_written",
        "mBlocks[row, config.write_block, None]",
        "mBlocks[row, config.write_block ^ 1, None]",
    ),
    Mutant(
        "attn_res",
        "sum_of_one_cta_forgotten",
        "for p in cutlass.range_constexpr(1, config.ctas):",
        "for p in cutlass.range_constexpr(1, config.ctas - 1):",
    ),
)

"""Mutants of the op `exchange_attn_res`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

_RANKS = "../../device/rank_rows.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "exchange_attn_res",
        "last_rank_forgotten",
        "totals = [totals[i] + values[i] for i in range(_VALUES)]",
        "totals = [totals[i] + values[i] * float(r < 7) for i in range(_VALUES)]",
        file=_RANKS,
    ),
    Mutant(
        "exchange_attn_res",
        "nobody_waited_for",
        "wanted = Int32(1) if r != rows.rank else Int32(0)",
        "wanted = Int32(0)",
        file=_RANKS,
    ),
    Mutant(
        "exchange_attn_res",
        "columns_of_the_first_rank",
        "at = vector - rank * config.share_vectors",
        "at = vector % 2",
    ),
    Mutant(
        "exchange_attn_res",
        "exchange_not_added",
        "total = rPrefix.load().to(Float32) + rPending.load().to(Float32)",
        "total = rPrefix.load().to(Float32)",
    ),
)

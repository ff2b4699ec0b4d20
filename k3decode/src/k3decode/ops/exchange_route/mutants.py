"""Mutants of the op `exchange_route`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "exchange_route",
        "second_part_from_the_first",
        "begin, own_begin = begin + share * c.ranks, own_begin + share",
        "begin, own_begin = begin + share * c.ranks, own_begin",
    ),
    Mutant(
        "exchange_route",
        "columns_over_the_logits",
        "inside = inside + c.num_experts * _WORD_BYTES + vector * VECTOR_BYTES",
        "inside = inside + vector * VECTOR_BYTES",
    ),
    Mutant(
        "exchange_route",
        "one_rank_is_sent_nothing",
        "        if r != rows.rank:",
        "        if r > 0 and r != rows.rank:",
        file="../../device/rank_rows.py",
    ),
    Mutant(
        "exchange_route",
        "scores_of_neighbours",
        "sLogits[first + j] = logits[j]",
        "sLogits[first + (j ^ 1)] = logits[j]",
    ),
)

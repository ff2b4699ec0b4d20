"""Mutants of the op `mla_decode`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mla_decode",
        "older_sums_not_rescaled",
        "rSums[i] * scales[(i // 2) % 2]",
        "rSums[i] * Float32(1.0)",
    ),
    Mutant(
        "mla_decode",
        "older_shares_not_rescaled",
        "total = rState[2 + head] * scale",
        "total = rState[2 + head]",
    ),
    Mutant(
        "mla_decode",
        "page_before",
        "asking.table[place[_REQUEST], place[_ENTRY]]",
        "asking.table[place[_REQUEST], cutlass.max(place[_ENTRY] - 1, 0)]",
    ),
    Mutant(
        "mla_decode",
        "one_token_too_many",
        "column + i % 2 < left",
        "column + i % 2 < left + 1",
    ),
    Mutant(
        "mla_decode",
        "products_of_one_warp_forgotten",
        "cutlass.range_constexpr(c.group_warps - 1)",
        "cutlass.range_constexpr(c.group_warps - 2)",
    ),
    Mutant(
        "mla_decode",
        "queries_of_the_first_heads_only",
        "sQuery[copy // c.row_copies, None]",
        "sQuery[copy // c.row_copies % 8, None]",
    ),
    Mutant(
        "mla_decode",
        "rows_of_a_request_see_the_same",
        "column + i % 2 + rLater[i // 2] < left",
        "column + i % 2 < left",
        file="../mla_decode_together/kernel.py",
    ),
    Mutant(
        "mla_decode",
        "tile_before_of_the_same_ring",
        "ring = tiles if odd == 1",
        "ring = tiles if odd == 0",
        file="../mla_decode_together/kernel.py",
    ),
    Mutant(
        "mla_decode",
        "shares_of_a_row_that_saw_nothing",
        "reference = highest if highest > Float32(-math.inf) else Float32(0.0)",
        "reference = highest",
        file="../mla_decode_together/kernel.py",
    ),
)

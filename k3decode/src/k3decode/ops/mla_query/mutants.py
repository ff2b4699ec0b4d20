"""Mutants of the op `mla_query`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mla_query",
        "columns_of_the_next_warp",
        "column = slice_index * c.columns + warp * PRODUCT_N",
        "column = slice_index * c.columns + (warp ^ 1) * PRODUCT_N",
    ),
    Mutant(
        "mla_query",
        "projected_columns_passed_on",
        "c.nope // VECTOR_WIDTH + vector",
        "vector",
    ),
    Mutant(
        "mla_query",
        "query_scale_forgotten",
        "value.to(BFloat16).to(Float32) / scale",
        "value.to(BFloat16).to(Float32)",
    ),
)

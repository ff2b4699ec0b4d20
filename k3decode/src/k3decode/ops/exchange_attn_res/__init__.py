"""The op `exchange_attn_res`: rows of all ranks, then attention over residual blocks."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.exchange_attn_res.cases import CASES
from k3decode.ops.exchange_attn_res.launch import (
    compile_variant,
    exchange_attn_res,
    variants,
)

__all__ = ["OP"]

OP = Op(
    name="exchange_attn_res",
    launch=exchange_attn_res,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    typical_variants=("sum_of_8_add_2", "gather_of_8_add_2"),
    # A place is written by ranks that no order of launches binds: its words are their own flags.
    weights=frozenset({"direction", "output_norm", "place"}),
)

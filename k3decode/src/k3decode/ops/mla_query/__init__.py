"""The op `mla_query`: absorption of the key projection into MLA's queries."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.mla_query.cases import CASES, replay
from k3decode.ops.mla_query.launch import compile_variant, mla_query, variants

__all__ = ["OP"]

OP = Op(
    name="mla_query",
    launch=mla_query,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"key_up"}),
    replay=replay,
)

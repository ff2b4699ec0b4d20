"""The op `embedding`: one table row per token."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.embedding.cases import CASES, replay
from k3decode.ops.embedding.launch import compile_variant, embed_rows, variants

__all__ = ["OP"]

OP = Op(
    name="embedding",
    launch=embed_rows,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"table"}),
    replay=replay,
)

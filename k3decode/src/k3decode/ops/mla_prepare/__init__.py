"""The op `mla_prepare`: norms of MLA's compressed rows, and the write of the cache row."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.mla_prepare.cases import CASES, replay
from k3decode.ops.mla_prepare.launch import compile_variant, mla_prepare, variants

__all__ = ["OP"]

OP = Op(
    name="mla_prepare",
    launch=mla_prepare,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"query_norm", "latent_norm"}),
    replay=replay,
)

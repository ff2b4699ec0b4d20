"""The op `attn_res`: attention over residual blocks."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.attn_res.cases import CASES
from k3decode.ops.attn_res.launch import attn_res, compile_variant, variants
from k3decode.ops.attn_res.trial import replay

__all__ = ["OP"]

OP = Op(
    name="attn_res",
    launch=attn_res,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    typical_variants=("add_8",),
    weights=frozenset({"direction", "output_norm"}),
    replay=replay,
)

"""The op `kda`: one decode or verify step of the gated delta rule."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.kda.cases import CASES
from k3decode.ops.kda.launch import compile_variant, kda_step, variants
from k3decode.ops.kda.trial import replay

__all__ = ["OP"]

OP = Op(
    name="kda",
    launch=kda_step,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    typical_variants=("tp8_12_heads", "tp8_12_heads_few", "tp8_12_heads_q8"),
    weights=frozenset({"weights"}),
    replay=replay,
)

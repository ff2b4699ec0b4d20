"""The op `experts`: routed experts in MXFP4 on a latent row."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.experts.cases import CASES
from k3decode.ops.experts.launch import compile_variant, run_experts, variants
from k3decode.ops.experts.trial import replay

__all__ = ["OP"]

OP = Op(
    name="experts",
    launch=run_experts,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    typical_variants=("tp8_m64_narrow",),
    weights=frozenset({"packed"}),
    replay=replay,
)

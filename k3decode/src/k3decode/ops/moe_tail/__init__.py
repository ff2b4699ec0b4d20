"""The op `moe_tail`: the routed and the shared part of the latent MoE come together."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.moe_tail.cases import CASES, replay
from k3decode.ops.moe_tail.launch import add_shared, compile_variant, variants

__all__ = ["OP"]

OP = Op(
    name="moe_tail",
    launch=add_shared,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    replay=replay,
)

"""The op `mla_combine`: one result of partial attention, as gated values or as latents."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.mla_combine.cases import CASES
from k3decode.ops.mla_combine.launch import all_variants, compile_variant, mla_combine
from k3decode.ops.mla_combine.trial import replay

__all__ = ["OP"]

OP = Op(
    name="mla_combine",
    launch=mla_combine,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in all_variants(K3Dims()).items()
    },
    replay=replay,
)

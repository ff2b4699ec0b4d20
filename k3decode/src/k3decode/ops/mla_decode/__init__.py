"""The op `mla_decode`: attention of absorbed queries over the paged latent cache, in parts."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.mla_decode.cases import CASES
from k3decode.ops.mla_decode.launch import (
    compile_alone,
    compile_together,
    mla_decode,
    variants,
)
from k3decode.ops.mla_decode.trial import replay

__all__ = ["OP"]

_CONFIGS = variants(K3Dims())

OP = Op(
    name="mla_decode",
    launch=mla_decode,
    cases=CASES,
    variants={
        **{name: partial(compile_alone, config) for name, config in _CONFIGS.items()},
        **{
            f"{name}_together": partial(compile_together, config)
            for name, config in _CONFIGS.items()
        },
    },
    typical_variants=("e4m3",),
    replay=replay,
)

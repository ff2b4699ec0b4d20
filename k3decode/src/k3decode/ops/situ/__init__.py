"""The op `situ`: activation of the shared expert and of the dense layer."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.situ.cases import CASES, replay
from k3decode.ops.situ.launch import activate_rows, compile_variant, variants

__all__ = ["OP"]

OP = Op(
    name="situ",
    launch=activate_rows,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    replay=replay,
)

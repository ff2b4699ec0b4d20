"""The op `projection`: linear layers without bias, from one decode row to 64."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.projection.cases import CASES, replay
from k3decode.ops.projection.launch import compile_variant, project, variants

__all__ = ["OP"]

OP = Op(
    name="projection",
    launch=project,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"weight"}),
    replay=replay,
)

"""The op `router`: expert selection."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.router.cases import CASES, replay
from k3decode.ops.router.launch import compile_variant, route_rows, variants

__all__ = ["OP"]

OP = Op(
    name="router",
    launch=route_rows,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"bias"}),
    replay=replay,
)

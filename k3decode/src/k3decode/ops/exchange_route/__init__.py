"""The op `exchange_route`: rows of all ranks in front of the experts, and their choice."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.exchange_route.cases import CASES
from k3decode.ops.exchange_route.launch import compile_variant, exchange_route, variants

__all__ = ["OP"]

OP = Op(
    name="exchange_route",
    launch=exchange_route,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    # A place is written by ranks that no order of launches binds: its words are their own flags.
    weights=frozenset({"bias", "place"}),
)

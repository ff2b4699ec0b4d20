"""The op `exchange_latent_norm`: sum of all ranks' expert outputs, then its RMSNorm."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.exchange_latent_norm.cases import CASES
from k3decode.ops.exchange_latent_norm.launch import (
    compile_variant,
    exchange_latent_norm,
    variants,
)

__all__ = ["OP"]

OP = Op(
    name="exchange_latent_norm",
    launch=exchange_latent_norm,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    # A place is written by ranks that no order of launches binds: its words are their own flags.
    weights=frozenset({"weight", "place"}),
)

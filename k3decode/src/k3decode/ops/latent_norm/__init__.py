"""The op `latent_norm`: RMSNorm of the summed latent row, before the up-projection."""

from functools import partial

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.latent_norm.cases import CASES, replay
from k3decode.ops.latent_norm.launch import compile_variant, normalise_latent, variants

__all__ = ["OP"]

OP = Op(
    name="latent_norm",
    launch=normalise_latent,
    cases=CASES,
    variants={
        name: partial(compile_variant, config) for name, config in variants(K3Dims()).items()
    },
    weights=frozenset({"weight"}),
    replay=replay,
)

"""All ops that have a kernel, listed by hand; nothing registers itself."""

from k3decode.op import Op
from k3decode.ops import (
    attn_res,
    embedding,
    exchange_attn_res,
    exchange_latent_norm,
    exchange_route,
    experts,
    kda,
    latent_norm,
    mla_combine,
    mla_decode,
    mla_prepare,
    mla_query,
    moe_tail,
    projection,
    router,
    situ,
)

__all__ = ["OPS", "op_named"]

OPS: tuple[Op, ...] = (
    attn_res.OP,
    embedding.OP,
    exchange_attn_res.OP,
    exchange_latent_norm.OP,
    exchange_route.OP,
    experts.OP,
    kda.OP,
    latent_norm.OP,
    mla_combine.OP,
    mla_decode.OP,
    mla_prepare.OP,
    mla_query.OP,
    moe_tail.OP,
    projection.OP,
    router.OP,
    situ.OP,
)
"""In alphabetical order."""


def op_named(name: str) -> Op:
    """Find an op.

    Raises:
        ValueError: no op with a kernel has this name.
    """
    for op in OPS:
        if op.name == name:
            return op
    known = ", ".join(op.name for op in OPS)
    raise ValueError(f"expected an op with a kernel ({known}), found '{name}'")

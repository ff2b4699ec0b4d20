"""All ops that have a kernel, listed by hand; nothing registers itself."""

from k3decode.op import Op
from k3decode.ops import attn_res, embedding, kda, router

__all__ = ["OPS", "op_named"]

OPS: tuple[Op, ...] = (attn_res.OP, embedding.OP, kda.OP, router.OP)
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

"""Which layers are timed: the model's own mix, or one kind of layer alone."""

from dataclasses import replace
from typing import Literal

from k3decode.dims import K3Dims

__all__ = ["STACKS", "Stack", "stack_dims"]

Stack = Literal["mix", "kda_dense", "kda_moe", "mla_moe"]
STACKS: tuple[Stack, ...] = ("mix", "kda_dense", "kda_moe", "mla_moe")
"""Three KDA layers to one of MLA behind a dense layer 0; all layers of one kind."""

# Longer than any stack.
_NEVER = 1 << 20


def stack_dims(dims: K3Dims, stack: Stack) -> K3Dims:
    """The numbers of a model whose layers are all of a kind; its residual blocks stay as long."""
    if stack == "mix":
        return dims
    return replace(
        dims,
        mla_period=1 if stack == "mla_moe" else _NEVER,
        num_dense_layers=_NEVER if stack == "kda_dense" else 0,
    )

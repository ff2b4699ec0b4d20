"""Reference of the end of the MoE part: routed and shared expert come together."""

from torch import Tensor

__all__ = ["moe_tail"]


def moe_tail(routed: Tensor, shared: Tensor) -> Tensor:
    """Sum of the up-projected routed rows and the shared expert's rows, [M, D] each."""
    return routed + shared

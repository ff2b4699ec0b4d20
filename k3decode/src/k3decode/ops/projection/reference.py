"""Reference of a projection without bias, and the row order that pairs gate and up."""

import torch
from torch import Tensor

from k3decode.ops.dense_mlp.reference import situ

__all__ = ["interleave_gate_up", "projection", "projection_situ"]


def projection(activation: Tensor, weight: Tensor) -> Tensor:
    """Apply weight [N, K] to rows [M, K]; returns [M, N] in the dtype of both."""
    return activation @ weight.T


def interleave_gate_up(gate: Tensor, up: Tensor) -> Tensor:
    """Alternate rows of two weights [I, K]: gate 0, up 0, gate 1, ...; returns [2 I, K]."""
    return torch.stack([gate, up], dim=1).flatten(0, 1)


def projection_situ(
    activation: Tensor, weight: Tensor, beta: float, linear_beta: float, rounding: torch.dtype
) -> Tensor:
    """SiTU of gate and up, each rounded to a dtype first.

    Args:
        activation: rows [M, K].
        weight: alternating gate and up rows, [2 I, K].
        beta: bound of the gate factor.
        linear_beta: bound of the linear factor.
        rounding: dtype that gate and up take before the activation; that of the rows for none.

    Returns:
        [M, I] in the dtype of the rows.
    """
    pairs = projection(activation, weight).to(rounding).to(activation.dtype).unflatten(1, (-1, 2))
    return situ(pairs[..., 0], pairs[..., 1], beta, linear_beta)

"""Reference of the dense feed-forward part and of its activation, SiTU."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["MlpWeights", "dense_mlp", "situ"]


@dataclass(frozen=True)
class MlpWeights:
    """Weights of a gated feed-forward part; used for layer 0 and for the shared expert."""

    gate_proj: Tensor
    """[I, D]"""
    up_proj: Tensor
    """[I, D]"""
    down_proj: Tensor
    """[D, I]"""
    beta: float
    linear_beta: float


def situ(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """SiTU in fp32: a bounded SiLU of the gate times a bounded linear value; any equal shapes."""
    bounded_gate = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    return bounded_gate * (linear_beta * torch.tanh(up / linear_beta))


def dense_mlp(x: Tensor, weights: MlpWeights) -> Tensor:
    """Apply the feed-forward part to rows x [T, D]; returns [T, D]."""
    gate, up = x @ weights.gate_proj.T, x @ weights.up_proj.T
    return situ(gate, up, weights.beta, weights.linear_beta) @ weights.down_proj.T

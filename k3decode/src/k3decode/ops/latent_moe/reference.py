"""Reference of the latent MoE: routed experts on a compressed row, a shared expert on the full row.

The latent norm follows the full sum over experts. Weights are plain fp32 here; a quantised
checkpoint is de-quantised first.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.ops.dense_mlp.reference import MlpWeights, dense_mlp, situ
from k3decode.ops.rms_norm.reference import rms_norm
from k3decode.ops.router.reference import Routing, route

__all__ = ["MoeWeights", "latent_moe", "routed_experts", "routed_experts_gathered"]

# Up to so many rows the experts' weights are gathered per row; more rows would copy too much.
_GATHER_ROWS = 16


@dataclass(frozen=True)
class MoeWeights:
    """Weights of one latent MoE part; L is the latent width here, E experts of inner width I."""

    gate: Tensor
    """Router, [E, D]."""
    correction_bias: Tensor
    """[E]"""
    down_proj: Tensor
    """Full row to latent row, [L, D]."""
    norm: Tensor
    """Norm weight of the summed latent row, [L]."""
    up_proj: Tensor
    """Latent row to full row, [D, L]."""
    w1: Tensor
    """Expert gate, [E, I, L]."""
    w3: Tensor
    """Expert up, [E, I, L]."""
    w2: Tensor
    """Expert down, [E, L, I]."""
    shared: MlpWeights
    top_k: int
    scaling_factor: float
    norm_eps: float


def routed_experts(
    latent: Tensor,
    routing: Routing,
    weights: MoeWeights,
    *,
    inner_dtype: torch.dtype | None = None,
) -> Tensor:
    """Weighted sum of each token's experts; latent [T, L], returns [T, L].

    Experts are walked in the order of their ids, so a token's sum does not depend on the others.
    Inner activations are rounded to `inner_dtype` where one is given, as kernels do.
    """
    total = torch.zeros_like(latent)
    beta, linear_beta = weights.shared.beta, weights.shared.linear_beta
    for expert in torch.unique(routing.experts).tolist():
        tokens, place = torch.where(routing.experts == expert)
        rows = latent[tokens]
        inner = situ(rows @ weights.w1[expert].T, rows @ weights.w3[expert].T, beta, linear_beta)
        if inner_dtype is not None:
            inner = inner.to(inner_dtype).to(rows.dtype)
        share = routing.weights[tokens, place][:, None]
        total[tokens] += share * (inner @ weights.w2[expert].T)
    return total


def routed_experts_gathered(latent: Tensor, routing: Routing, weights: MoeWeights) -> Tensor:
    """The same sum with each token's own copy of its experts' weights; for few tokens."""
    beta, linear_beta = weights.shared.beta, weights.shared.linear_beta
    rows = latent[:, None, :, None]
    inner = situ(
        weights.w1[routing.experts] @ rows, weights.w3[routing.experts] @ rows, beta, linear_beta
    )
    outputs = (weights.w2[routing.experts] @ inner)[..., 0]
    return (routing.weights[..., None] * outputs).sum(dim=1)


def latent_moe(x: Tensor, weights: MoeWeights) -> Tensor:
    """Apply router, routed experts, latent norm and shared expert to x [T, D]; returns [T, D]."""
    routing = route(
        x @ weights.gate.T, weights.correction_bias, weights.top_k, weights.scaling_factor
    )
    form = routed_experts_gathered if x.shape[0] <= _GATHER_ROWS else routed_experts
    summed = form(x @ weights.down_proj.T, routing, weights)
    routed = rms_norm(summed, weights.norm, weights.norm_eps) @ weights.up_proj.T
    return routed + dense_mlp(x, weights.shared)

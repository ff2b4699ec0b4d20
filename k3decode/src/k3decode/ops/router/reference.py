"""Reference of expert selection: sigmoid scores, a bias that only selects, renormalised weights."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Routing", "route"]

# Keeps the renormalisation finite when every chosen score underflows.
_SUM_FLOOR = 1e-20


@dataclass(frozen=True)
class Routing:
    """Experts of each token, best first."""

    experts: Tensor
    """Expert ids, int64, [T, k]."""
    weights: Tensor
    """Combine weights, fp32, [T, k]."""


def route(logits: Tensor, bias: Tensor, top_k: int, scaling_factor: float) -> Routing:
    """Choose experts for T tokens.

    Args:
        logits: fp32 router logits, [T, E].
        bias: correction bias, fp32, [E]; it moves the selection and never the weights.
        top_k: experts per token.
        scaling_factor: factor on the renormalised weights.

    Returns:
        The k experts with the largest biased scores; equal scores go to the lower expert id.
    """
    scores = torch.sigmoid(logits)
    # A stable sort keeps equal scores in the order of their ids; topk promises no order.
    ranked = torch.sort(scores + bias, dim=-1, descending=True, stable=True).indices
    experts = ranked[:, :top_k]
    chosen = scores.gather(1, experts)
    weights = scaling_factor * chosen / (chosen.sum(-1, keepdim=True) + _SUM_FLOOR)
    return Routing(experts=experts, weights=weights)

"""Who chose which experts, drawn instead of routed: the router runs, its choice is not used.

With random weights rows resemble each other and choose alike. A draw says how alike they are.
"""

from typing import Literal

import torch
from torch import Tensor

__all__ = ["DRAWS", "Draw", "drawn_experts", "zipf_weights"]

Draw = Literal["router", "uniform", "skewed"]
DRAWS: tuple[Draw, ...] = ("router", "uniform", "skewed")
"""The router's own choice; all experts equally likely; some much likelier than others."""


def zipf_weights(experts: int) -> Tensor:
    """Likelihood of each expert, one over its rank, FP32 [E]; the sum is one."""
    weights = 1.0 / torch.arange(1, experts + 1, dtype=torch.float32)
    return weights / weights.sum()


def drawn_experts(
    draw: Literal["uniform", "skewed"], shape: tuple[int, int, int], experts: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draw choices, each row's without repetition.

    Args:
        draw: how.
        shape: layers, rows, choices of a row.
        experts: of a layer; which of them are likely differs from layer to layer.
        seed: equal seeds give equal draws.

    Returns:
        Experts, int32, and equal shares, FP32, both of the shape, on the CPU.
    """
    layers, rows, top_k = shape
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(experts) if draw == "uniform" else zipf_weights(experts)
    found = []
    for _ in range(layers):
        names = torch.randperm(experts, generator=generator)
        chosen = torch.multinomial(weights.expand(rows, -1), top_k, generator=generator)
        found.append(names[chosen])
    shares = torch.full(shape, 1.0 / top_k)
    return torch.stack(found).to(torch.int32), shares

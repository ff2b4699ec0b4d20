"""Counts of expert selection: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.router.config import RouterConfig

__all__ = ["router_cost"]

_FP32_BYTES = 4
_CHOICE_BYTES = 8
# Sigmoid (three operations), bias, and one comparison per choice.
_FLOPS_PER_EXPERT = 4


def router_cost(config: RouterConfig, rows: int) -> Cost:
    """Logits and bias are read once; an id and a weight are written per choice."""
    scores = rows * config.num_experts
    return Cost(
        flops=scores * (_FLOPS_PER_EXPERT + config.experts_per_token),
        read_bytes=(scores + config.num_experts) * _FP32_BYTES,
        write_bytes=rows * config.experts_per_token * _CHOICE_BYTES,
    )

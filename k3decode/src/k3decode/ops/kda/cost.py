"""Counts of one KDA decode step: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.kda.config import KdaConfig

__all__ = ["kda_step_cost"]

_BF16_BYTES = 2
# An index takes as many.
_FP32_BYTES = 4
# Per state element: decay, two multiply-adds for the reads, one for the update.
_FLOPS_PER_STATE_ELEMENT = 7


def kda_step_cost(config: KdaConfig, requests: int, *, live: int) -> Cost:
    """State of live requests is read once and written after each token; weights are read once."""
    c = config
    rows = requests * c.tokens
    state_bytes = c.channels * c.head_dim * _FP32_BYTES
    tap_bytes = 3 * c.channels * _BF16_BYTES
    weight_bytes = c.channels * c.gate_rank * _BF16_BYTES + _FP32_BYTES * (
        3 * c.channels * c.conv_taps + c.heads + c.channels + c.head_dim
    )
    slot_bytes = _FP32_BYTES * (rows + (requests if c.tokens > 1 else 0))
    row_flops = _FLOPS_PER_STATE_ELEMENT * c.channels * c.head_dim
    row_flops += 2 * c.channels * c.gate_rank + 2 * 3 * c.channels * c.conv_taps
    return Cost(
        flops=live * c.tokens * row_flops,
        read_bytes=live * (state_bytes + (c.conv_taps - 1) * tap_bytes)
        + weight_bytes
        + slot_bytes
        + live * c.tokens * c.projection_width * _BF16_BYTES,
        write_bytes=live * (c.tokens * state_bytes + c.window * tap_bytes)
        + rows * c.channels * _BF16_BYTES,
    )

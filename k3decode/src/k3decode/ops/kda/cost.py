"""Counts of one KDA decode step: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.kda.config import KdaConfig

__all__ = ["kda_step_cost"]

_BF16_BYTES = 2
_FP32_BYTES = 4
# Per state element: decay, two multiply-adds for the reads, one for the update.
_FLOPS_PER_STATE_ELEMENT = 7


def kda_step_cost(config: KdaConfig, rows: int, *, live_rows: int) -> Cost:
    """State of live rows is read and written once; weights are read once for all rows."""
    c = config
    state = c.channels * c.head_dim
    taps = (c.conv_taps - 1) * 3 * c.channels
    state_bytes = live_rows * (state * _FP32_BYTES + taps * _BF16_BYTES)
    weight_bytes = c.channels * c.gate_rank * _BF16_BYTES + _FP32_BYTES * (
        3 * c.channels * c.conv_taps + c.heads + c.channels + c.head_dim
    )
    row_flops = _FLOPS_PER_STATE_ELEMENT * state + 2 * c.channels * c.gate_rank
    row_flops += 2 * 3 * c.channels * c.conv_taps
    return Cost(
        flops=live_rows * row_flops,
        read_bytes=state_bytes
        + weight_bytes
        + rows * _FP32_BYTES
        + live_rows * c.projection_width * _BF16_BYTES,
        write_bytes=state_bytes + rows * c.channels * _BF16_BYTES,
    )

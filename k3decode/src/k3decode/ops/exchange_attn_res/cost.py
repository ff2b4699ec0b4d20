"""Counts of the exchange before AttnRes: integers from shapes.

Bytes of this device's memory only: what a rank sends lies in the memory of others.
"""

from dataclasses import replace

from k3decode.cost import Cost
from k3decode.ops.attn_res.cost import attn_res_cost
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig

__all__ = ["exchange_attn_res_cost"]

_BF16_BYTES = 2


def exchange_attn_res_cost(config: ExchangeAttnResConfig, rows: int) -> Cost:
    """AttnRes, whose branch output is read in parts and freed where others have brought it."""
    alone = attn_res_cost(config, rows)
    row_bytes = rows * config.hidden_size * _BF16_BYTES
    parts = 1 if config.gathers else config.ranks
    freed = row_bytes * (config.ranks - 1)
    freed = freed // config.ranks if config.gathers else freed
    return replace(
        alone,
        flops=alone.flops + (0 if config.gathers else rows * config.hidden_size * config.ranks),
        read_bytes=alone.read_bytes + (parts - 1) * row_bytes,
        write_bytes=alone.write_bytes + freed,
    )

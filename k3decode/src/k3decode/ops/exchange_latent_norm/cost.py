"""Counts of the exchange before the latent norm: integers from shapes.

Bytes of this device's memory only: what a rank sends lies in the memory of others.
"""

from dataclasses import replace

from k3decode.cost import Cost
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig
from k3decode.ops.latent_norm.cost import latent_norm_cost

__all__ = ["exchange_latent_norm_cost"]

_BF16_BYTES = 2


def exchange_latent_norm_cost(config: ExchangeLatentNormConfig, rows: int) -> Cost:
    """The norm, whose row comes in as many parts as there are ranks, all but one of them freed."""
    alone = latent_norm_cost(rows, config.width)
    others = (config.ranks - 1) * rows * config.width * _BF16_BYTES
    return replace(
        alone,
        flops=alone.flops + rows * config.width * config.ranks,
        read_bytes=alone.read_bytes + others,
        write_bytes=alone.write_bytes + others,
    )

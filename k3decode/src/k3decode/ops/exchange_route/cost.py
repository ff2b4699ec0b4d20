"""Counts of the exchange in front of the experts: integers from shapes.

Bytes of this device's memory only: what a rank sends lies in the memory of others.
"""

from dataclasses import replace

from k3decode.cost import Cost
from k3decode.ops.exchange_route.config import ExchangeRouteConfig
from k3decode.ops.router.cost import router_cost

__all__ = ["exchange_route_cost"]

_WORD_BYTES = 4


def exchange_route_cost(config: ExchangeRouteConfig, rows: int) -> Cost:
    """The choice, and rows that are read in parts, freed where others brought them, and written."""
    alone = router_cost(config, rows)
    row_bytes = rows * config.row_words * _WORD_BYTES
    rest = row_bytes - rows * config.num_experts * _WORD_BYTES
    freed = row_bytes * (config.ranks - 1) // config.ranks
    return replace(
        alone,
        read_bytes=alone.read_bytes + rest,
        write_bytes=alone.write_bytes + row_bytes + freed,
    )

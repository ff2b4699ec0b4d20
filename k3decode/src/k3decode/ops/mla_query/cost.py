"""Counts of the absorption of the key projection: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.mla_query.config import MlaQueryConfig

__all__ = ["mla_query_cost"]

_BF16_BYTES = 2


def mla_query_cost(config: MlaQueryConfig, rows: int, heads: int) -> Cost:
    """The projection is read once for all rows."""
    c = config
    return Cost(
        flops=2 * rows * heads * c.nope * c.latent,
        read_bytes=_BF16_BYTES * heads * (c.nope * c.latent + rows * c.head_width),
        write_bytes=rows * heads * c.width * c.element_bytes,
    )

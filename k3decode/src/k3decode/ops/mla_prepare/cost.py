"""Counts of a step's preparation of MLA: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.mla.cache_format import element_bytes
from k3decode.ops.mla_prepare.config import MlaPrepareConfig

__all__ = ["mla_prepare_cost"]

_BF16_BYTES = 2
_SLOT_BYTES = 8
# Square and add, scale, weight.
_FLOPS_PER_NORMED_COLUMN = 4


def mla_prepare_cost(config: MlaPrepareConfig, rows: int, *, stored_rows: int) -> Cost:
    """Each row is read once; rows with a slot are stored."""
    c = config
    normed = c.query_rank + c.latent
    stored_bytes = c.row * element_bytes(c.cache_format)
    return Cost(
        flops=_FLOPS_PER_NORMED_COLUMN * rows * normed,
        read_bytes=_BF16_BYTES * (rows * c.used_width + normed) + rows * _SLOT_BYTES,
        write_bytes=_BF16_BYTES * rows * c.query_rank + stored_rows * stored_bytes,
    )

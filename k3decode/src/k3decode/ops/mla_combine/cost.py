"""Counts of combining partial attention: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.mla_combine.config import MlaCombineConfig

__all__ = ["mla_combine_cost"]

_BF16_BYTES = 2
_FP32_BYTES = 4


def mla_combine_cost(config: MlaCombineConfig, rows: int, heads: int, *, partials: int) -> Cost:
    """`partials` are those of all rows; the value projection is read once for all rows."""
    c = config
    read_bytes = _FP32_BYTES * partials * heads * (c.latent + 1)
    flops = 2 * partials * heads * c.latent
    if c.output == "latents":
        return Cost(
            flops=flops,
            read_bytes=read_bytes,
            write_bytes=_FP32_BYTES * rows * heads * (c.latent + 1),
        )
    values = heads * c.value
    return Cost(
        flops=flops + 2 * rows * values * c.latent,
        read_bytes=read_bytes + _BF16_BYTES * (values * c.latent + rows * values),
        write_bytes=_BF16_BYTES * rows * values,
    )

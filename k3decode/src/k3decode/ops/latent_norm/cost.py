"""Counts of the latent norm: integers from shapes."""

from k3decode.cost import Cost

__all__ = ["latent_norm_cost"]

_BF16_BYTES = 2
# Square, sum, two products.
_FLOPS_PER_COLUMN = 4


def latent_norm_cost(rows: int, width: int) -> Cost:
    """Rows are read and written once, the weight is read once."""
    row_bytes = rows * width * _BF16_BYTES
    return Cost(
        flops=_FLOPS_PER_COLUMN * rows * width,
        read_bytes=row_bytes + width * _BF16_BYTES,
        write_bytes=row_bytes,
    )

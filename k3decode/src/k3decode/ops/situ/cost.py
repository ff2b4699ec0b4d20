"""Counts of the SiTU activation: integers from shapes."""

from k3decode.cost import Cost

__all__ = ["situ_cost"]

_BF16_BYTES = 2
# Two tangents and one sigmoid, each of a few operations, and four products.
_FLOPS_PER_COLUMN = 24


def situ_cost(rows: int, width: int) -> Cost:
    """Gate and up are read once; `width` activated columns of each row are written."""
    return Cost(
        flops=_FLOPS_PER_COLUMN * rows * width,
        read_bytes=2 * rows * width * _BF16_BYTES,
        write_bytes=rows * width * _BF16_BYTES,
    )

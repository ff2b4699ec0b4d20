"""Counts of the MoE tail: integers from shapes."""

from k3decode.cost import Cost

__all__ = ["moe_tail_cost"]

_BF16_BYTES = 2


def moe_tail_cost(rows: int, width: int) -> Cost:
    """Two rows are read and one is written for each row."""
    row_bytes = rows * width * _BF16_BYTES
    return Cost(flops=rows * width, read_bytes=2 * row_bytes, write_bytes=row_bytes)

"""Counts of one projection: integers from shapes."""

from k3decode.cost import Cost

__all__ = ["projection_cost"]

_BF16_BYTES = 2
_FP32_BYTES = 4


def projection_cost(
    tokens: int, rows: int, columns: int, *, bf16_outputs: int, fp32_outputs: int
) -> Cost:
    """Weights [rows, columns] and activations are read once, each token's outputs written once."""
    return Cost(
        flops=2 * tokens * rows * columns,
        read_bytes=_BF16_BYTES * columns * (rows + tokens),
        write_bytes=tokens * (_BF16_BYTES * bf16_outputs + _FP32_BYTES * fp32_outputs),
    )

"""Counts of the embedding gather: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.embedding.config import EmbeddingConfig

__all__ = ["embedding_cost"]

_BF16_BYTES = 2
_ID_BYTES = 4


def embedding_cost(config: EmbeddingConfig, rows: int, *, distinct_rows: int) -> Cost:
    """Distinct table rows are read once, one row per token is written."""
    row_bytes = config.hidden_size * _BF16_BYTES
    return Cost(
        flops=0,
        read_bytes=rows * _ID_BYTES + distinct_rows * row_bytes,
        write_bytes=rows * row_bytes,
    )

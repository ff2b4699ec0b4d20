"""Counts of AttnRes: integers from shapes."""

from k3decode.cost import Cost
from k3decode.ops.attn_res.config import AttnResConfig

__all__ = ["attn_res_cost"]

_BF16_BYTES = 2
_FP32_BYTES = 4
# Per source and column: two multiply-adds for score and square, one for the mixture.
_FLOPS_PER_SOURCE = 6
# Per column: sum of squares and the two factors of the output norm.
_FLOPS_OF_NORM = 4


def attn_res_cost(config: AttnResConfig, rows: int) -> Cost:
    """Every source row is read once; what changes is written once."""
    row_bytes = rows * config.hidden_size * _BF16_BYTES
    reads_prefix = not config.reset
    read_rows = config.blocks + int(reads_prefix) + int(config.has_pending)
    written_rows = 1 + int(config.has_pending) + int(config.write_block is not None)
    weight_bytes = config.hidden_size * (_FP32_BYTES + _BF16_BYTES * int(config.output_norm))
    per_column = _FLOPS_PER_SOURCE * (config.blocks + 1)
    per_column += int(config.has_pending and not config.reset)
    per_column += _FLOPS_OF_NORM * int(config.output_norm)
    return Cost(
        flops=rows * config.hidden_size * per_column,
        read_bytes=read_rows * row_bytes + weight_bytes,
        write_bytes=written_rows * row_bytes,
    )

"""Counts of the routed experts: integers from shapes and from who chose whom."""

from k3decode.cost import Cost
from k3decode.formats import MXFP4_GROUP
from k3decode.ops.experts.config import ExpertsConfig

__all__ = ["expert_bytes", "experts_cost"]

_BF16_BYTES = 2
_CHOICE_BYTES = 8
_MATRICES = 3


def expert_bytes(config: ExpertsConfig) -> int:
    """Bytes of one expert: half a byte for each weight, one for each group's scale."""
    weights = _MATRICES * config.latent_size * config.inner_size
    return weights // 2 + weights // MXFP4_GROUP


def experts_cost(config: ExpertsConfig, rows: int, *, served_slots: int, experts: int) -> Cost:
    """Each chosen expert is read once for all its rows; inner rows stay on the chip."""
    row_bytes = rows * config.latent_size * _BF16_BYTES
    return Cost(
        flops=2 * _MATRICES * served_slots * config.latent_size * config.inner_size,
        read_bytes=experts * expert_bytes(config) + row_bytes + rows * config.top_k * _CHOICE_BYTES,
        write_bytes=row_bytes,
    )

"""How much of each projection's weight an earlier launch brings into the L2 cache.

Small kernels between the projections leave the memory idle. What they request meanwhile shortens
the projection behind them, as long as nothing else streams through the cache in between. A
projection requests the first columns of every row by itself before it may begin; a prefetch starts
behind those.
"""

from dataclasses import dataclass

from torch import Tensor

from k3decode.host.row_prefetch import RowPrefetch
from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.tiles import config_for

__all__ = ["PrefetchBytes", "rows_ahead"]

_MEGABYTE = 1_000_000
_BF16_BYTES = 2
_COLUMN_MULTIPLE = 64


@dataclass(frozen=True)
class PrefetchBytes:
    """Megabytes, by the weight that is brought; 0 for none."""

    attention_in: float = 12
    """By the AttnRes before."""
    kda_out: float = 22
    """By the KDA step."""
    mla_out: float = 22
    """By the preparation of MLA."""
    front_behind_mla: float = 16
    """By the combination of MLA."""
    front: float = 12
    """By the AttnRes before."""
    tail: float = 20
    """By the router; the experts come between."""


def rows_ahead(
    weight: Tensor, tokens: int, megabytes: float, situ: SituBounds | None = None
) -> RowPrefetch | None:
    """Columns of a dense weight behind those that its projection requests by itself.

    Args:
        weight: [N, K], dense.
        tokens: rows of the step.
        megabytes: how much, at most.
        situ: as the projection gets it.

    Returns:
        None where nothing is left to bring.
    """
    config = config_for(weight.shape[0], weight.shape[1], tokens, situ)
    # CTAs of a cluster split the columns, and each begins with the first of its share.
    shares = weight.view(weight.shape[0] * config.split, weight.shape[1] // config.split)
    first = config.ring_columns
    fitting = int(megabytes * _MEGABYTE) // (_BF16_BYTES * shares.shape[0])
    count = min(shares.shape[1] - first, fitting - fitting % _COLUMN_MULTIPLE)
    if count <= 0:
        return None
    return RowPrefetch(shares[:, first : first + count])

"""Counts of attention over the latent cache: integers from shapes."""

from collections.abc import Sequence

from k3decode.cost import Cost
from k3decode.ops.mla_decode.config import MlaDecodeConfig

__all__ = ["mla_decode_cost"]

_FP32_BYTES = 4
_INDEX_BYTES = 4


def mla_decode_cost(
    config: MlaDecodeConfig,
    *,
    lengths: Sequence[int],
    visible: Sequence[int],
    heads: int,
    page_tokens: int,
    pieces: int,
) -> Cost:
    """Each request's rows of the cache are read once, also where several of its rows see them.

    Args:
        config: variant.
        lengths: tokens of each request.
        visible: tokens that each row attends to.
        heads: local heads.
        page_tokens: tokens of a page.
        pieces: partials that are written.
    """
    c = config
    pages = sum(-(-length // page_tokens) for length in lengths)
    return Cost(
        flops=2 * heads * sum(visible) * (c.width + c.latent),
        read_bytes=sum(lengths) * c.row_bytes
        + len(visible) * heads * c.row_bytes
        + _INDEX_BYTES * (pages + len(lengths)),
        write_bytes=_FP32_BYTES * pieces * heads * (c.latent + 1),
    )

"""Reference of AttnRes: each branch reads a softmax mixture of residual blocks and the prefix.

The residual stream of a token is a prefix (the sum since the last block) plus the finished blocks.
It lives within one forward pass only. Values are immutable: each function returns a new stream.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.ops.rms_norm.reference import rms_norm

__all__ = [
    "AttnResWeights",
    "ResidualStream",
    "after_attention",
    "attn_res_mixture",
    "before_attention",
    "final_rows",
]


@dataclass(frozen=True)
class AttnResWeights:
    """One reading point: how sources are scored and how the mixture is normalised."""

    source_norm: Tensor
    """Norm weight of the scored sources, [D]."""
    query: Tensor
    """The row that scores them, [D]."""
    output_norm: Tensor | None
    """Norm weight of the mixture, [D]; None at the final reading, which is not normalised."""
    eps: float


@dataclass(frozen=True)
class ResidualStream:
    """What a pass carries between layers, for T tokens."""

    prefix: Tensor
    """Sum of branch outputs since the last reset, [T, D]."""
    blocks: tuple[Tensor, ...] = ()
    """Finished blocks, oldest first, each [T, D]; the first is the embedding."""


def attn_res_mixture(sources: tuple[Tensor, ...], weights: AttnResWeights) -> Tensor:
    """Mix sources, each [T, D], by the softmax of their scores; returns [T, D].

    The score of a source is the query row times the normalised source; no temperature.
    """
    stacked = torch.stack(sources)
    direction = weights.source_norm * weights.query
    scale = torch.rsqrt(stacked.square().mean(-1) + weights.eps)
    scores = (stacked @ direction) * scale
    shares = torch.softmax(scores, dim=0)
    mixture = (shares[..., None] * stacked).sum(dim=0)
    if weights.output_norm is None:
        return mixture
    return rms_norm(mixture, weights.output_norm, weights.eps)


def before_attention(
    layer: int,
    block_size: int,
    stream: ResidualStream,
    pending: Tensor | None,
    weights: AttnResWeights,
) -> tuple[Tensor, ResidualStream]:
    """Give attention its input.

    Args:
        layer: 0-based layer number.
        block_size: layers between two blocks.
        stream: stream left by the layer before.
        pending: output of the feed-forward part before, [T, D]; None at layer 0.
        weights: this reading point's weights.

    Returns:
        Normalised rows [T, D] and the stream, with a new block at every block start. The block just
        written is not a source of its own: the same rows already take part as the prefix.
    """
    prefix = stream.prefix if pending is None else stream.prefix + pending
    rows = attn_res_mixture((*stream.blocks, prefix), weights)
    starts_block = layer % block_size == 0
    blocks = (*stream.blocks, prefix) if starts_block else stream.blocks
    return rows, ResidualStream(prefix=prefix, blocks=blocks)


def after_attention(
    layer: int, block_size: int, stream: ResidualStream, attention: Tensor, weights: AttnResWeights
) -> tuple[Tensor, ResidualStream]:
    """Give the feed-forward part its input.

    At a block start the prefix is reset to the attention output: the old prefix lives on as the
    block that `before_attention` wrote.
    """
    starts_block = layer % block_size == 0
    prefix = attention if starts_block else stream.prefix + attention
    rows = attn_res_mixture((*stream.blocks, prefix), weights)
    return rows, ResidualStream(prefix=prefix, blocks=stream.blocks)


def final_rows(stream: ResidualStream, pending: Tensor, weights: AttnResWeights) -> Tensor:
    """Rows after the last layer, before the model's final norm, [T, D]."""
    return attn_res_mixture((*stream.blocks, stream.prefix + pending), weights)

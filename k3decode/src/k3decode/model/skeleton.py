"""The layer loop of K3: AttnRes around attention and feed-forward parts.

Attention is given by the caller, because its state lives in different places: in plain tensors for
the reference decoders, in the engine's caches for the plugin. So may the feed-forward part be,
where its weights are divided among ranks.
"""

from collections.abc import Callable

from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.model.weights import ModelWeights
from k3decode.ops.attn_res.reference import (
    ResidualStream,
    after_attention,
    before_attention,
    final_rows,
)
from k3decode.ops.dense_mlp.reference import MlpWeights, dense_mlp
from k3decode.ops.latent_moe.reference import MoeWeights, latent_moe
from k3decode.ops.rms_norm.reference import rms_norm

__all__ = ["Attend", "FeedForward", "hidden_rows", "logits"]

Attend = Callable[[int, Tensor], Tensor]
"""Layer number and normalised rows [T, D] -> attention output [T, D]."""

FeedForward = Callable[[int, Tensor], Tensor]
"""The same for the feed-forward part."""


def hidden_rows(
    embedded: Tensor,
    weights: ModelWeights,
    dims: K3Dims,
    attend: Attend,
    feed_forward: FeedForward | None = None,
) -> Tensor:
    """Run all layers on embedded tokens [T, D]; returns rows before the model's norm, [T, D].

    Without `feed_forward` that part is the reference with the whole weights.
    """
    stream = ResidualStream(prefix=embedded)
    pending: Tensor | None = None
    for number, layer in enumerate(weights.layers):
        rows, stream = before_attention(
            number, dims.attn_res_block_size, stream, pending, layer.before_attention
        )
        rows, stream = after_attention(
            number, dims.attn_res_block_size, stream, attend(number, rows), layer.after_attention
        )
        if feed_forward is None:
            pending = _feed_forward(rows, layer.feed_forward)
        else:
            pending = feed_forward(number, rows)
    if pending is None:
        raise ValueError("a model has at least one layer, found none: check num_hidden_layers")
    return final_rows(stream, pending, weights.final)


def _feed_forward(rows: Tensor, weights: MlpWeights | MoeWeights) -> Tensor:
    if isinstance(weights, MlpWeights):
        return dense_mlp(rows, weights)
    return latent_moe(rows, weights)


def logits(rows: Tensor, weights: ModelWeights, dims: K3Dims) -> Tensor:
    """Logits of rows before the model's norm; [T, D] -> [T, vocabulary]."""
    return rms_norm(rows, weights.norm, dims.rms_norm_eps) @ weights.lm_head.T

"""Weights of one tensor-parallel rank, cut out of a model's.

Heads, inner widths, the vocabulary, router rows and the rows of the latent projections are divided
into equal, consecutive parts; everything else every rank has whole. Parts have the types of the
whole, so the ops' references run on them unchanged.
"""

from dataclasses import replace

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.model.weights import LayerWeights, ModelWeights
from k3decode.ops.dense_mlp.reference import MlpWeights
from k3decode.ops.kda.reference import KdaWeights
from k3decode.ops.latent_moe.reference import MoeWeights
from k3decode.ops.mla.reference import MlaWeights

__all__ = ["shard_weights"]


def shard_weights(weights: ModelWeights, dims: K3Dims, ranks: int) -> tuple[ModelWeights, ...]:
    """Weights of every rank.

    Raises:
        ShardError: the ranks do not divide the model.
    """
    dims.shard(ranks)
    return tuple(_model(weights, _Part(rank, ranks)) for rank in range(ranks))


class _Part:
    """One of equal, consecutive parts."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank = rank
        self._ranks = ranks

    def of(self, tensor: Tensor, axis: int = 0) -> Tensor:
        """The part of a tensor along an axis."""
        return tensor.tensor_split(self._ranks, dim=axis)[self._rank]

    def of_each(self, tensor: Tensor, blocks: int) -> Tensor:
        """The part of each of some equal blocks of rows, one behind the other."""
        return torch.cat([self.of(block) for block in tensor.tensor_split(blocks)])

    def count(self, number: int) -> int:
        """The part of a number."""
        return number // self._ranks


def _model(weights: ModelWeights, part: _Part) -> ModelWeights:
    return replace(
        weights,
        embedding=part.of(weights.embedding),
        layers=tuple(_layer(layer, part) for layer in weights.layers),
        lm_head=part.of(weights.lm_head),
    )


def _layer(layer: LayerWeights, part: _Part) -> LayerWeights:
    attention, feed_forward = layer.attention, layer.feed_forward
    return replace(
        layer,
        attention=_kda(attention, part)
        if isinstance(attention, KdaWeights)
        else _mla(attention, part),
        feed_forward=_mlp(feed_forward, part)
        if isinstance(feed_forward, MlpWeights)
        else _moe(feed_forward, part),
    )


def _kda(weights: KdaWeights, part: _Part) -> KdaWeights:
    channels, rank = weights.f_b_proj.shape
    packed, decay, beta = weights.in_proj.split([4 * channels, rank, weights.num_heads])
    return replace(
        weights,
        in_proj=torch.cat([part.of_each(packed, 4), decay, part.of(beta)]),
        f_b_proj=part.of(weights.f_b_proj),
        o_proj=part.of(weights.o_proj, 1),
        conv_weight=part.of_each(weights.conv_weight, 3),
        a_log=part.of(weights.a_log),
        dt_bias=part.of(weights.dt_bias),
    )


def _mla(weights: MlaWeights, part: _Part) -> MlaWeights:
    gate_rows = weights.o_proj.shape[1]
    compressed, gate = weights.in_proj.split([weights.in_proj.shape[0] - gate_rows, gate_rows])
    return replace(
        weights,
        in_proj=torch.cat([compressed, part.of(gate)]),
        q_b_proj=part.of(weights.q_b_proj),
        kv_b_proj=part.of(weights.kv_b_proj),
        o_proj=part.of(weights.o_proj, 1),
        num_heads=part.count(weights.num_heads),
    )


def _mlp(weights: MlpWeights, part: _Part) -> MlpWeights:
    return replace(
        weights,
        gate_proj=part.of(weights.gate_proj),
        up_proj=part.of(weights.up_proj),
        down_proj=part.of(weights.down_proj, 1),
    )


def _moe(weights: MoeWeights, part: _Part) -> MoeWeights:
    return replace(
        weights,
        gate=part.of(weights.gate),
        down_proj=part.of(weights.down_proj),
        up_proj=part.of(weights.up_proj),
        w1=part.of(weights.w1, 1),
        w3=part.of(weights.w3, 1),
        w2=part.of(weights.w2, 2),
        shared=_mlp(weights.shared, part),
    )

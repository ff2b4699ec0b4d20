"""Weights of a decoder layer as the kernels of a decode step read them.

Everything lies on one device, is BF16 unless said otherwise, and never changes after it was packed.
"""

from dataclasses import dataclass

from torch import Tensor

from k3decode.ops.experts.packing import PackedExperts
from k3decode.ops.kda.launch import KdaStepWeights

__all__ = [
    "DecodeLayer",
    "DensePart",
    "KdaPart",
    "MlaPart",
    "ModelEnds",
    "MoePart",
    "OwnMoePart",
    "ReadingPoint",
]


@dataclass(frozen=True)
class ReadingPoint:
    """One use of AttnRes."""

    direction: Tensor
    """Source norm times query row, FP32 [D]."""
    output_norm: Tensor
    """[D]"""


@dataclass(frozen=True)
class KdaPart:
    """A KDA layer's attention; C = H * K."""

    in_proj: Tensor
    """[q C | k C | v C | gate C | decay 128 | beta H, padded to a multiple of 16 rows, D]"""
    step: KdaStepWeights
    o_proj: Tensor
    """[D, C]"""


@dataclass(frozen=True)
class MlaPart:
    """An MLA layer's attention."""

    in_proj: Tensor
    """[query rank Q | latent L | shared R | gate H V, D]"""
    query_norm: Tensor
    """[Q]"""
    latent_norm: Tensor
    """[L]"""
    q_b: Tensor
    """[H (N + R), Q]"""
    key_up: Tensor
    """[H, N, L]"""
    value_up: Tensor
    """[H, V, L]"""
    o_proj: Tensor
    """[D, H V]"""


@dataclass(frozen=True)
class DensePart:
    """A dense feed-forward part."""

    gate_up: Tensor
    """Rows alternate between gate and up, [2 I, D]."""
    down: Tensor
    """[D, I]"""


@dataclass(frozen=True)
class MoePart:
    """A latent MoE part of a rank that reads router and latent projections whole."""

    front: Tensor
    """[router E | latent down L | shared gate and up in turn 2 S, D]"""
    correction_bias: Tensor
    """FP32 [E]"""
    experts: PackedExperts
    latent_norm: Tensor
    """[L]"""
    tail: Tensor
    """Latent up and shared down side by side, [D, L + S]: their sum is one product."""


@dataclass(frozen=True)
class OwnMoePart:
    """A latent MoE part of a rank that reads its own rows of everything.

    What it gets of its peers: logits, latent row and the shared expert's activation as a whole, in
    front of the experts, and the other columns of the output behind them. The sum over the experts
    is added up over the ranks. With N ranks:
    """

    front: Tensor
    """[router E / N | latent down L / N | shared gate and up in turn 2 S, D]"""
    correction_bias: Tensor
    """FP32 [E]"""
    experts: PackedExperts
    latent_norm: Tensor
    """[L]"""
    tail: Tensor
    """Rows of latent up and of the whole shared down side by side, [D / N, L + N S]."""


@dataclass(frozen=True)
class DecodeLayer:
    """One decoder layer."""

    number: int
    """0-based; it decides about AttnRes' blocks."""
    before: ReadingPoint
    attention: KdaPart | MlaPart
    after: ReadingPoint
    feed_forward: DensePart | MoePart | OwnMoePart


@dataclass(frozen=True)
class ModelEnds:
    """What stands before the first and after the last layer."""

    embedding: Tensor
    """[vocabulary, D]"""
    final: ReadingPoint
    """Its output norm is the model's."""
    lm_head: Tensor
    """[vocabulary, D]"""

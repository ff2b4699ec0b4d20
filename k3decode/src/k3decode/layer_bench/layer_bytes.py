"""Bytes that a layer of a step must move: weights once, chosen experts once, state of each request.

Rows between kernels are not counted: they stay in the L2 cache. Pure integers from shapes.
"""

from dataclasses import dataclass

from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP

__all__ = ["StepShape", "layer_bytes"]

_BF16_BYTES = 2
_FP32_BYTES = 4


@dataclass(frozen=True)
class StepShape:
    """A step as far as it decides about bytes."""

    requests: int
    context: int
    """Tokens of each request, those of this step included."""
    tokens: int = 1
    """Rows of each request."""
    peers_of: int = 1
    """Ranks that share router and latent projections; 1 reads them whole."""


def layer_bytes(dims: K3Dims, number: int, step: StepShape, *, distinct_experts: int) -> int:
    """Bytes read and written.

    Args:
        dims: widths of the rank.
        number: 0-based layer number.
        step: the step.
        distinct_experts: routed experts that at least one row chose; 0 for a dense layer.
    """
    attention = _mla(dims, step) if dims.is_mla(number) else _kda(dims, step)
    if dims.is_dense(number):
        return attention + 3 * _BF16_BYTES * dims.hidden_size * dims.dense_intermediate_size
    return attention + _moe(dims, distinct_experts, step.peers_of)


def _kda(dims: K3Dims, step: StepShape) -> int:
    channels, hidden, rank = dims.kda_width, dims.hidden_size, dims.kda_gate_rank
    packed = 4 * channels + rank + dims.num_attention_heads
    weights = _BF16_BYTES * (packed * hidden + channels * rank + hidden * channels)
    weights += _FP32_BYTES * channels * (3 * dims.kda_conv_taps + 1)
    memory = _FP32_BYTES * channels * dims.kda_head_dim
    taps = _BF16_BYTES * 3 * channels
    read = memory + (dims.kda_conv_taps - 1) * taps
    written = step.tokens * memory + (dims.kda_conv_taps - 2 + step.tokens) * taps
    return weights + step.requests * (read + written)


def _mla(dims: K3Dims, step: StepShape) -> int:
    hidden, heads, latent = dims.hidden_size, dims.num_attention_heads, dims.kv_lora_rank
    values = heads * dims.v_head_dim
    packed = dims.q_lora_rank + dims.mla_row + values
    per_head = dims.qk_nope_head_dim + dims.v_head_dim
    weights = _BF16_BYTES * (
        packed * hidden
        + heads * dims.qk_head_dim * dims.q_lora_rank
        + heads * per_head * latent
        + hidden * values
    )
    return weights + _BF16_BYTES * dims.mla_row * step.requests * (step.context + step.tokens)


def _moe(dims: K3Dims, distinct_experts: int, peers_of: int) -> int:
    hidden, latent, shared = dims.hidden_size, dims.latent_size, dims.shared_intermediate_size
    expert_weights = 3 * latent * dims.expert_intermediate_size
    expert = expert_weights // 2 + expert_weights // MXFP4_GROUP
    dense = (dims.num_experts + 2 * latent) // peers_of + 3 * shared
    return _BF16_BYTES * hidden * dense + distinct_experts * expert

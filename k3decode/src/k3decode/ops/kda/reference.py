"""Reference of KDA, the gated delta rule with a decay per key channel, in two forms.

`kda_recurrent` walks token by token and is the specification read aloud; `kda_chunked` solves a
triangular system per chunk. They share no arithmetic and are tested against each other. Both take
and return the state, so a sequence may be cut anywhere. All of it is fp32. One step's decay lies in
(exp(bound), 1): a product over many tokens underflows, so its reciprocal must never be formed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.ops.short_conv.reference import short_conv_sequence, short_conv_step

__all__ = [
    "KdaForm",
    "KdaProjection",
    "KdaState",
    "KdaWeights",
    "kda_chunked",
    "kda_output",
    "kda_project",
    "kda_recurrent",
]


@dataclass(frozen=True)
class KdaWeights:
    """Weights of one KDA layer; C = H * K channels, R the rank of the decay gate."""

    in_proj: Tensor
    """All input projections, rows q C | k C | v C | gate C | decay R | beta H, [4 C + R + H, D]."""
    f_b_proj: Tensor
    """Second factor of the decay gate, [C, R]."""
    o_proj: Tensor
    """[D, C]"""
    conv_weight: Tensor
    """Convolution weights in the channel order of the stored taps, q | k | v, [3 C, W]."""
    a_log: Tensor
    """[H]"""
    dt_bias: Tensor
    """[C]"""
    o_norm: Tensor
    """[V], shared by the heads."""
    gate_lower_bound: float
    qk_norm_eps: float
    norm_eps: float

    @property
    def num_heads(self) -> int:
        """H, read off the per-head parameters."""
        return int(self.a_log.shape[0])


@dataclass(frozen=True)
class KdaState:
    """What a sequence carries from one call to the next."""

    taps: Tensor
    """Raw q | k | v rows before the next token, oldest first, [B, W - 1, 3 C]."""
    memory: Tensor
    """The recurrent state S, [B, H, V, K]."""


@dataclass(frozen=True)
class KdaProjection:
    """What a layer's input projections give for its tokens."""

    qkv: Tensor
    """Raw q | k | v rows before the convolution, [B, T, 3 C]."""
    gate: Tensor
    """Output gate before its sigmoid, [B, T, C]."""
    raw_decay: Tensor
    """Decay gate before bias and bounds, [B, T, C]."""
    raw_beta: Tensor
    """Update strength before its sigmoid, [B, T, H]."""


KdaForm = Callable[[KdaProjection, KdaWeights, KdaState], tuple[Tensor, KdaState]]
"""Either form: projections, weights and state -> gated rows [B, T, C] and the state after them."""


def kda_project(x: Tensor, weights: KdaWeights) -> KdaProjection:
    """Project normalised hidden rows x [B, T, D]."""
    channels, rank = weights.f_b_proj.shape
    widths = [3 * channels, channels, rank, weights.num_heads]
    qkv, gate, decay, beta = (x @ weights.in_proj.T).split(widths, dim=-1)
    return KdaProjection(qkv=qkv, gate=gate, raw_decay=decay @ weights.f_b_proj.T, raw_beta=beta)


def kda_output(mixed: Tensor, weights: KdaWeights) -> Tensor:
    """Project gated rows [B, T, C] back to the hidden width, [B, T, D]."""
    return mixed @ weights.o_proj.T


def kda_recurrent(
    projection: KdaProjection, weights: KdaWeights, state: KdaState
) -> tuple[Tensor, KdaState]:
    """Apply the rule token by token.

    Args:
        projection: the new tokens' projections.
        weights: the layer's weights.
        state: state before the first of them.

    Returns:
        Gated rows before the output projection, [B, T, C], and the state after the last token.
    """
    heads = weights.num_heads
    batch, length, channels = projection.gate.shape
    width = channels // heads
    conv_weight = weights.conv_weight
    bias = weights.dt_bias.view(heads, width)
    rate = torch.exp(weights.a_log)[:, None]
    taps, memory = state.taps, state.memory
    rows = []
    for t in range(length):
        convolved, taps = short_conv_step(projection.qkv[:, t], taps, conv_weight)
        q, k, v = convolved.view(batch, 3, heads, width).unbind(dim=1)
        q = q * torch.rsqrt((q * q).sum(-1, keepdim=True) + weights.qk_norm_eps) * width**-0.5
        k = k * torch.rsqrt((k * k).sum(-1, keepdim=True) + weights.qk_norm_eps)
        raw = projection.raw_decay[:, t].view(batch, heads, width)
        decay = torch.exp(weights.gate_lower_bound * torch.sigmoid(rate * (raw + bias)))
        beta = torch.sigmoid(projection.raw_beta[:, t])[..., None]
        memory = memory * decay[:, :, None, :]
        error = (v - (memory @ k[..., None])[..., 0]) * beta
        memory = memory + error[..., :, None] * k[..., None, :]
        rows.append((memory @ q[..., None])[..., 0])
    out = torch.stack(rows, dim=1) if rows else projection.gate.new_zeros(batch, 0, heads, width)
    out = out * torch.rsqrt((out * out).mean(-1, keepdim=True) + weights.norm_eps)
    gate = torch.sigmoid(projection.gate).view(batch, length, heads, width)
    gated = out * weights.o_norm * gate
    return gated.reshape(batch, length, channels), KdaState(taps=taps, memory=memory)


def kda_chunked(
    projection: KdaProjection, weights: KdaWeights, state: KdaState, *, chunk: int = 32
) -> tuple[Tensor, KdaState]:
    """Apply the rule chunk by chunk, each chunk at once.

    Args:
        projection: the new tokens' projections.
        weights: the layer's weights.
        state: state before the first of them.
        chunk: longest chunk in tokens; the result does not depend on it beyond rounding.

    Returns:
        Gated rows before the output projection, [B, T, C], and the state after the last token.
    """
    batch, length, channels = projection.gate.shape
    heads = weights.num_heads
    shape = (batch, length, heads, channels // heads)
    convolved, taps = short_conv_sequence(projection.qkv, state.taps, weights.conv_weight)
    q, k, v = (part.reshape(shape) for part in convolved.split(channels, dim=-1))
    q = q / torch.sqrt(q.square().sum(-1, keepdim=True) + weights.qk_norm_eps)
    k = k / torch.sqrt(k.square().sum(-1, keepdim=True) + weights.qk_norm_eps)
    q = q / shape[-1] ** 0.5
    shifted = (projection.raw_decay + weights.dt_bias).reshape(shape)
    log_decay = weights.gate_lower_bound * (shifted * weights.a_log.exp()[:, None]).sigmoid()
    beta = projection.raw_beta.sigmoid()
    memory = state.memory
    pieces = [projection.gate.new_zeros(batch, 0, heads, shape[-1])]
    for start in range(0, length, chunk):
        part = slice(start, start + chunk)
        piece, memory = _solve_chunk(
            _Chunk(q[:, part], k[:, part], v[:, part], log_decay[:, part], beta[:, part]), memory
        )
        pieces.append(piece)
    out = torch.cat(pieces, dim=1)
    out = out / torch.sqrt(out.square().mean(-1, keepdim=True) + weights.norm_eps)
    out = out * weights.o_norm * projection.gate.reshape(shape).sigmoid()
    return out.reshape(batch, length, channels), KdaState(taps=taps, memory=memory)


@dataclass(frozen=True)
class _Chunk:
    """Consecutive tokens; q, k, v, log_decay [B, C, H, K], beta [B, C, H]."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor
    beta: Tensor


def _solve_chunk(tokens: _Chunk, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs [B, C, H, V] of one chunk and the memory [B, H, V, K] after it.

    With g the running sum of log decays, the update of token t reads keys j <= t faded by
    exp(g_t - g_j). Differences above the diagonal are positive and could overflow, so they are
    masked before the exponential.
    """
    q, k, v = tokens.q.transpose(1, 2), tokens.k.transpose(1, 2), tokens.v.transpose(1, 2)
    beta = tokens.beta.transpose(1, 2)[..., None]
    size = q.shape[2]
    running = tokens.log_decay.transpose(1, 2).cumsum(dim=2)
    order = torch.arange(size, device=q.device)
    future = order[:, None] < order[None, :]
    gap = running[:, :, :, None, :] - running[:, :, None, :, :]
    fade = gap.masked_fill(future[:, :, None], float("-inf")).exp()
    faded_keys = fade * k[:, :, None, :, :]
    key_on_key = torch.einsum("bhtk,bhtjk->bhtj", k, faded_keys)
    query_on_key = torch.einsum("bhtk,bhtjk->bhtj", q, faded_keys)
    from_start = running.exp()
    wanted = beta * (v - torch.einsum("bhtk,bhvk->bhtv", k * from_start, memory))
    system = beta * key_on_key.tril(diagonal=-1)
    error = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    out = torch.einsum("bhtk,bhvk->bhtv", q * from_start, memory) + query_on_key @ error
    to_end = (running[:, :, -1:, :] - running).exp()
    carried = memory * from_start[:, :, -1, None, :]
    memory = carried + torch.einsum("bhtv,bhtk->bhvk", error, k * to_end)
    return out.transpose(1, 2), memory

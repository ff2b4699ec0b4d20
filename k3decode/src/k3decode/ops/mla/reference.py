"""Reference of MLA in two forms: unabsorbed (keys and values per head) and absorbed (one row).

Nothing is rotated: the columns that other models rotate are used as they are. The cache row of a
token is its normalised compressed row followed by those columns; the unabsorbed form expands it per
head, the absorbed form moves the expansion into query and output. The forms share the input
projections only and are tested against each other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.ops.rms_norm.reference import rms_norm

__all__ = [
    "MlaProjection",
    "MlaWeights",
    "absorb_queries",
    "expand_keys_values",
    "lift_latents",
    "mla_absorbed",
    "mla_output",
    "mla_project",
    "mla_unabsorbed",
]


@dataclass(frozen=True)
class MlaWeights:
    """Weights of one MLA layer; N, R, V the nope, shared and value widths of a head, L latent."""

    in_proj: Tensor
    """All input projections, rows query Q | compressed L | shared R | gate H V, [..., D]."""
    q_a_layernorm: Tensor
    """[Q]"""
    q_b_proj: Tensor
    """[H (N + R), Q]"""
    kv_a_layernorm: Tensor
    """[L]"""
    kv_b_proj: Tensor
    """Per head N key rows, then V value rows, [H (N + V), L]."""
    o_proj: Tensor
    """[D, H V]"""
    num_heads: int
    nope: int
    scale: float
    norm_eps: float

    def key_up(self) -> Tensor:
        """W_UK, [H, N, L]."""
        return self.kv_b_proj.view(self.num_heads, -1, self.kv_b_proj.shape[-1])[:, : self.nope]

    def value_up(self) -> Tensor:
        """W_UV, [H, V, L]."""
        return self.kv_b_proj.view(self.num_heads, -1, self.kv_b_proj.shape[-1])[:, self.nope :]


@dataclass(frozen=True)
class MlaProjection:
    """What a layer's input projections give for T tokens."""

    query: Tensor
    """[T, H, N + R]"""
    row: Tensor
    """Cache row: normalised compressed row | shared columns, [T, L + R]."""
    gate: Tensor
    """Output gate before its sigmoid, [T, H V]."""


def mla_project(x: Tensor, weights: MlaWeights) -> MlaProjection:
    """Project normalised hidden rows x [T, D]."""
    rank, latent = weights.q_a_layernorm.shape[0], weights.kv_a_layernorm.shape[0]
    gate_width = weights.o_proj.shape[1]
    shared_width = weights.in_proj.shape[0] - rank - latent - gate_width
    widths = [rank, latent, shared_width, gate_width]
    raw_query, raw_row, shared, gate = (x @ weights.in_proj.T).split(widths, dim=-1)
    compressed = rms_norm(raw_query, weights.q_a_layernorm, weights.norm_eps)
    query = (compressed @ weights.q_b_proj.T).view(x.shape[0], weights.num_heads, -1)
    row = rms_norm(raw_row, weights.kv_a_layernorm, weights.norm_eps)
    return MlaProjection(query=query, row=torch.cat([row, shared], dim=-1), gate=gate)


def mla_output(values: Tensor, gate: Tensor, weights: MlaWeights) -> Tensor:
    """Gate head values [T, H, V] and project them, [T, D]."""
    return (values.flatten(1) * torch.sigmoid(gate)) @ weights.o_proj.T


def expand_keys_values(rows: Tensor, weights: MlaWeights) -> tuple[Tensor, Tensor]:
    """Expand cache rows [S, L + R] to keys [S, H, N + R] and values [S, H, V], one per head."""
    latent = weights.kv_a_layernorm.shape[0]
    expanded = rows[:, :latent] @ weights.kv_b_proj.T
    per_head = expanded.view(rows.shape[0], weights.num_heads, -1)
    shared = rows[:, None, latent:].expand(-1, weights.num_heads, -1)
    keys = torch.cat([per_head[..., : weights.nope], shared], dim=-1)
    return keys, per_head[..., weights.nope :]


def absorb_queries(query: Tensor, weights: MlaWeights) -> Tensor:
    """Move W_UK into queries [T, H, N + R], so that they meet cache rows: [T, H, L + R]."""
    absorbed = torch.einsum("thn,hnl->thl", query[..., : weights.nope], weights.key_up())
    return torch.cat([absorbed, query[..., weights.nope :]], dim=-1)


def lift_latents(latents: Tensor, weights: MlaWeights) -> Tensor:
    """Apply W_UV to attended compressed rows [T, H, L]; returns head values [T, H, V]."""
    return torch.einsum("thl,hvl->thv", latents, weights.value_up())


def _visible(queries: int, rows: int, device: torch.device) -> Tensor:
    """Causal mask [queries, rows]; the last query sees all rows."""
    position = torch.arange(queries, device=device)[:, None] + (rows - queries)
    return torch.arange(rows, device=device)[None, :] <= position


def mla_unabsorbed(x: Tensor, weights: MlaWeights, cache: Tensor) -> tuple[Tensor, Tensor]:
    """Attend with keys and values per head.

    Args:
        x: normalised hidden rows of the new tokens, [T, D].
        weights: the layer's weights.
        cache: cache rows of the tokens before, [S, L + R]; S may be 0.

    Returns:
        Attention output [T, D] and the cache [S + T, L + R].
    """
    new = mla_project(x, weights)
    rows = torch.cat([cache, new.row])
    keys, values = expand_keys_values(rows, weights)
    scores = torch.einsum("thd,shd->hts", new.query, keys) * weights.scale
    hidden = ~_visible(x.shape[0], rows.shape[0], x.device)
    shares = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    return mla_output(torch.einsum("hts,shv->thv", shares, values), new.gate, weights), rows


def mla_absorbed(x: Tensor, weights: MlaWeights, cache: Tensor) -> tuple[Tensor, Tensor]:
    """Attend on the shared cache rows; arguments and result as `mla_unabsorbed`."""
    new = mla_project(x, weights)
    rows = torch.cat([cache, new.row])
    latent = weights.kv_a_layernorm.shape[0]
    query = absorb_queries(new.query, weights).transpose(0, 1)
    logits = weights.scale * (query @ rows.T)
    visible = _visible(x.shape[0], rows.shape[0], x.device)
    shares = torch.softmax(torch.where(visible, logits, -torch.inf), dim=-1)
    attended = (shares @ rows[:, :latent]).transpose(0, 1)
    return mla_output(lift_latents(attended, weights), new.gate, weights), rows

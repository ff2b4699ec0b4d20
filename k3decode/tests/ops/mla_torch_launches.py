"""Plain-torch stand-ins for the launches of MLA's kernels, written apart from their references."""

import math

import torch
from torch import Tensor

from k3decode.formats import pack_e4m3, unpack_e4m3
from k3decode.ops.mla_combine.config import MlaCombineConfig
from k3decode.ops.mla_combine.launch import CutRows, ValueLift
from k3decode.ops.mla_decode.config import MlaDecodeConfig
from k3decode.ops.mla_decode.launch import CacheScales, PagedCache, Partials, split_rule
from k3decode.ops.mla_decode.schedule import pieces, visible_tokens
from k3decode.ops.mla_prepare.config import MlaPrepareConfig
from k3decode.ops.mla_query.config import MlaQueryConfig

BF16 = torch.bfloat16


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    mean = x.float().square().mean(-1, keepdim=True)
    return (x.float() / (mean + eps).sqrt() * weight.float()).to(BF16)


def mla_prepare(  # noqa: PLR0917
    projection: Tensor,
    query_norm: Tensor,
    latent_norm: Tensor,
    slots: Tensor,
    query: Tensor,
    pages: Tensor,
    *,
    config: MlaPrepareConfig,
    cache_scale: float = 1.0,
) -> None:
    rank, latent, eps = config.query_rank, config.latent, config.norm_eps
    query.copy_(_normed(projection[:, :rank], query_norm, eps))
    compressed = _normed(projection[:, rank : rank + latent], latent_norm, eps)
    row = torch.cat([compressed, projection[:, rank + latent : config.used_width]], -1)
    stored = row if config.cache_format == "bf16" else pack_e4m3(row, cache_scale)
    for index, slot in enumerate(slots.tolist()):
        if slot >= 0:
            pages[slot // pages.shape[1], slot % pages.shape[1]] = stored[index]


def mla_query(
    query: Tensor,
    key_up: Tensor,
    absorbed: Tensor,
    *,
    config: MlaQueryConfig,
    query_scale: float = 1.0,
) -> None:
    for head in range(query.shape[1]):
        latents = (query[:, head, : config.nope].float() @ key_up[head].float()).to(BF16)
        whole = torch.cat([latents, query[:, head, config.nope :]], -1)
        stored = whole if config.cache_format == "bf16" else pack_e4m3(whole, query_scale)
        absorbed[:, head] = stored


def mla_decode(
    query: Tensor,
    cache: PagedCache,
    partials: Partials,
    *,
    config: MlaDecodeConfig,
    score_scale: float,
    scales: CacheScales | None = None,
) -> None:
    """One token after the other, with a running maximum."""
    scales = scales or CacheScales()

    def exact(stored: Tensor) -> Tensor:
        return stored.float() if config.cache_format == "bf16" else unpack_e4m3(stored)

    scale = score_scale * scales.query * scales.cache
    visible = visible_tokens(cache.lengths.tolist(), cache.tokens_per_request)
    tokens = cache.pages.shape[1]
    rule = split_rule(config, partials.lse.device)
    parts = partials.parts(len(visible), rule.rows_together(cache.tokens_per_request))
    for piece in pieces(visible, rule, parts, cache.tokens_per_request):
        table = cache.table[piece.row // cache.tokens_per_request]
        highest = torch.full((query.shape[1],), -torch.inf)
        total = torch.zeros(query.shape[1])
        sums = torch.zeros(query.shape[1], config.latent)
        for token in range(piece.first_token, piece.first_token + piece.tokens):
            row = exact(cache.pages[table[token // tokens], token % tokens])
            score = (exact(query[piece.row]) * row).sum(-1) * scale
            new = torch.maximum(highest, score)
            share = torch.exp(score - new)
            shrink = torch.exp(highest - new)
            total = total * shrink + share
            sums = sums * shrink[:, None] + share[:, None] * row[: config.latent]
            highest = new
        partials.latents[piece.partial] = sums / total[:, None] * scales.cache
        partials.lse[piece.partial] = highest + torch.log(total)


def mla_combine(
    partials: Partials,
    out: Tensor,
    *,
    config: MlaCombineConfig,
    cut: CutRows | None = None,
    lift: ValueLift | None = None,
    out_lse: Tensor | None = None,
) -> None:
    """Shares relative to the largest logarithm, summed, divided at the end."""
    rows, heads = out.shape[0], partials.lse.shape[1]
    places: list[list[int]] = [list(range(row, partials.lse.shape[0], rows)) for row in range(rows)]
    if cut is not None:
        places = [[] for _ in range(rows)]
        visible = visible_tokens(cut.lengths.tolist(), cut.tokens_per_request)
        parts = partials.parts(rows, cut.rows_together)
        for piece in pieces(visible, cut.rule, parts, cut.tokens_per_request):
            places[piece.row].append(piece.partial)
    for row in range(rows):
        total, latents = torch.zeros(heads), torch.zeros(heads, config.latent)
        highest = torch.full((heads,), -math.inf)
        for place in places[row]:
            highest = torch.maximum(highest, partials.lse[place])
        for place in places[row]:
            counted = partials.lse[place] > -math.inf
            share = torch.where(counted, torch.exp(partials.lse[place] - highest), 0.0)
            used = torch.where(counted[:, None], partials.latents[place], 0.0)
            total, latents = total + share, latents + share[:, None] * used
        latents = torch.where(total[:, None] > 0, latents / total[:, None], 0.0)
        lse = highest + torch.log(total)
        if out_lse is not None:
            out[row], out_lse[row] = latents, lse
        if lift is not None:
            values = torch.stack([lift.value_up[h].float() @ latents[h] for h in range(heads)])
            gated = values.to(BF16).float().flatten() * torch.sigmoid(lift.gate[row].float())
            out[row] = torch.where(lse.isfinite().repeat_interleave(config.value), gated, 0.0)

"""Attention of one MLA layer over its cache: ours, vLLM's, and a kernel that only reads.

From absorbed queries and a paged BF16 cache to latents of each head. How work is cut is worked out
before, as an engine does once for all layers of a step. Not inside: projections, the absorbed
query's and the values' products, the gate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from k3decode.dims import K3Dims
from k3decode.layer_bench.beside import time_beside
from k3decode.layer_bench.sides import StockChild
from k3decode.ops.mla_combine.launch import CutRows, mla_combine
from k3decode.ops.mla_combine.launch import config_for as combine_config
from k3decode.ops.mla_decode.launch import (
    PagedCache,
    config_for,
    make_partials,
    mla_decode,
    split_rule,
)

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["ATTENTION_CASES", "AttentionCase", "time_attention"]

_BF16_BYTES = 2
_PAGE_TOKENS = 64
# Caches together, or as many as there are at most: several times the L2 cache.
_ROTATED_BYTES = 180_000_000
_MOST_COPIES = 64
# vLLM gives a model with KDA pages of 768 tokens; FlashMLA has no others than 64.
_BACKENDS = {
    "flash_attn_64": {"backend": "flash_attn", "page_tokens": 64},
    "flash_attn_768": {"backend": "flash_attn", "page_tokens": 768},
    "flash_mla": {"backend": "flash_mla", "page_tokens": 64},
}


@dataclass(frozen=True)
class AttentionCase:
    """A step's requests."""

    rows: int
    context: int
    """Tokens of each, those of the step included."""

    def cache_bytes(self, dims: K3Dims) -> int:
        """Bytes of the cache rows that a layer reads."""
        return _BF16_BYTES * dims.mla_row * self.rows * self.context

    def copies(self, dims: K3Dims) -> int:
        """Caches that are rotated."""
        return min(max(-(-_ROTATED_BYTES // self.cache_bytes(dims)), 2), _MOST_COPIES)


_KIBI = 1024
ATTENTION_CASES = tuple(
    AttentionCase(rows, context)
    for context, batches in ((_KIBI, (1, 8, 64)), (32 * _KIBI, (1, 8)), (256 * _KIBI, (1,)))
    for rows in batches
)
"""Short, long and very long contexts."""


def time_attention(
    case: AttentionCase,
    stock: StockChild,
    dims: K3Dims,
    reads: "ReadRate",
    *,
    rounds: int,
    replays: int,
) -> dict[str, Any]:
    """Time them in turns on caches of the same extents.

    Args:
        case: the step.
        stock: an engine.
        dims: widths of the rank.
        reads: reads as many bytes.
        rounds: of each backend.
        replays: in a round.
    """
    copies = case.copies(dims)
    asked = {"do": "attention", "rows": case.rows, "context": case.context, "copies": copies}
    found = time_beside(
        _launches(case, dims, copies),
        stock,
        {name: {**asked, **which} for name, which in _BACKENDS.items()},
        rounds=rounds,
        replays=replays,
    )
    moved = case.cache_bytes(dims)
    read = reads.read_us(moved, copies)
    return {
        "rows": case.rows,
        "context": case.context,
        "heads": dims.num_attention_heads,
        "copies": copies,
        **found,
        "bytes": moved,
        "read_us": read,
        "read_ratio": found["us"] / read,
    }


def _launches(case: AttentionCase, dims: K3Dims, copies: int) -> list[Callable[[], None]]:
    device, heads, rows = torch.device("cuda"), dims.num_attention_heads, case.rows
    config = config_for(dims, "bf16")
    query = torch.randn(rows, heads, dims.mla_row, device=device).to(torch.bfloat16)
    partials = make_partials(config, rows, heads, device)
    out = torch.empty(rows, heads, dims.kv_lora_rank, device=device)
    out_lse = torch.empty(rows, heads, device=device)
    each = -(-case.context // _PAGE_TOKENS)
    table = torch.arange(rows * each, dtype=torch.int32, device=device).view(rows, each)
    lengths = torch.full((rows,), case.context, dtype=torch.int32, device=device)
    cut = CutRows(lengths=lengths, rule=split_rule(config, device))

    def launch() -> Callable[[], None]:
        shape = (rows * each, _PAGE_TOKENS, dims.mla_row)
        pages = torch.empty(shape, dtype=torch.bfloat16, device=device).normal_()
        cache = PagedCache(pages=pages, table=table, lengths=lengths)

        def run() -> None:
            mla_decode(query, cache, partials, config=config, score_scale=dims.mla_scale)
            combine = combine_config(dims, "parts", "latents")
            mla_combine(partials, out, config=combine, cut=cut, out_lse=out_lse)

        return run

    return [launch() for _ in range(copies)]

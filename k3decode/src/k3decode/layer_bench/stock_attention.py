"""vLLM's MLA attention alone: the kernels that its Hopper backends call, as they call them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.dims import K3Dims

__all__ = ["AttentionStep", "stock_attention"]

# What vLLM allows FlashAttention in a captured step, unless it is told otherwise.
_MOST_SPLITS = 32


@dataclass(frozen=True)
class AttentionStep:
    """One decode step's requests."""

    rows: int
    context: int
    """Tokens of each, those of the step included."""
    page_tokens: int
    copies: int
    """Caches, one for each launch."""


def stock_attention(backend: str, dims: K3Dims, step: AttentionStep) -> list[Callable[[], None]]:
    """A launch for each cache; how work is cut is worked out before, once for all.

    Args:
        backend: "flash_attn" or "flash_mla".
        dims: widths of the rank.
        step: the step.

    Raises:
        ValueError: another backend.
    """
    if backend not in {"flash_attn", "flash_mla"}:
        raise ValueError(f"expected flash_attn or flash_mla, found {backend!r}")
    launch = _flash_attn if backend == "flash_attn" else _flash_mla
    each = -(-step.context // step.page_tokens)
    pages = torch.arange(step.rows * each, dtype=torch.int32, device="cuda")
    table = pages.view(step.rows, each)
    lengths = torch.full((step.rows,), step.context, dtype=torch.int32, device="cuda")
    shape = (step.rows * each, step.page_tokens, dims.mla_row)
    caches = [
        torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_()
        for _ in range(step.copies)
    ]
    query = torch.randn(step.rows, dims.num_attention_heads, dims.mla_row, device="cuda")
    return launch(dims, step, query.to(torch.bfloat16), caches, table, lengths)


def _flash_attn(  # noqa: PLR0917
    dims: K3Dims,
    step: AttentionStep,
    query: Tensor,
    caches: list[Tensor],
    table: Tensor,
    lengths: Tensor,
) -> list[Callable[[], None]]:
    from vllm.v1.attention.backends.fa_utils import flash_attn_varlen_func  # noqa: PLC0415

    starts = torch.arange(step.rows + 1, dtype=torch.int32, device="cuda")
    schedule = _flash_attn_schedule(dims, step, lengths, starts)
    latent = query[..., : dims.kv_lora_rank].contiguous()
    shared = query[..., dims.kv_lora_rank :].contiguous()

    def launch(cache: Tensor) -> Callable[[], None]:
        rows = cache.unsqueeze(-2)

        def run() -> None:
            flash_attn_varlen_func(
                q=shared,
                k=rows[..., dims.kv_lora_rank :],
                v=rows[..., : dims.kv_lora_rank],
                q_v=latent,
                max_seqlen_q=1,
                cu_seqlens_q=starts,
                max_seqlen_k=step.context,
                seqused_k=lengths,
                block_table=table,
                softmax_scale=dims.mla_scale,
                causal=True,
                fa_version=3,
                scheduler_metadata=schedule,
                num_splits=_MOST_SPLITS,
            )

        return run

    return [launch(cache) for cache in caches]


def _flash_attn_schedule(
    dims: K3Dims, step: AttentionStep, lengths: Tensor, starts: Tensor
) -> Tensor:
    from vllm.v1.attention.backends.fa_utils import get_scheduler_metadata  # noqa: PLC0415

    found: Tensor = get_scheduler_metadata(
        batch_size=step.rows,
        max_seqlen_q=1,
        max_seqlen_k=step.context,
        num_heads_q=dims.num_attention_heads,
        num_heads_kv=1,
        headdim=dims.qk_rope_head_dim,
        cache_seqlens=lengths,
        qkv_dtype=torch.bfloat16,
        headdim_v=dims.kv_lora_rank,
        page_size=step.page_tokens,
        cu_seqlens_q=starts,
        causal=True,
        num_splits=_MOST_SPLITS,
    )
    return found


def _flash_mla(  # noqa: PLR0917
    dims: K3Dims,
    step: AttentionStep,
    query: Tensor,
    caches: list[Tensor],
    table: Tensor,
    lengths: Tensor,
) -> list[Callable[[], None]]:
    from vllm.v1.attention.ops.flashmla import (  # noqa: PLC0415
        flash_mla_with_kvcache,
        get_mla_metadata,
    )

    heads = dims.num_attention_heads
    schedule, _ = get_mla_metadata(lengths, heads, 1, is_fp8_kvcache=False)
    queries = query.view(step.rows, 1, heads, dims.mla_row)

    def launch(cache: Tensor) -> Callable[[], None]:
        def run() -> None:
            flash_mla_with_kvcache(
                q=queries,
                k_cache=cache.unsqueeze(-2),
                block_table=table,
                cache_seqlens=lengths,
                head_dim_v=dims.kv_lora_rank,
                tile_scheduler_metadata=schedule,
                softmax_scale=dims.mla_scale,
                causal=True,
                is_fp8_kvcache=False,
            )

        return run

    return [launch(cache) for cache in caches]

"""Memory of a decode step: allocated once, before any graph is captured, and never moved.

All layers and all graphs share the activations, so graphs must not run beside each other.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS

__all__ = ["DecodeState", "StepBuffers", "allocate_buffers", "allocate_state"]

_PACKED_ROW_MULTIPLE = 16
_NULL_PAGES = 1
# Tensors whose rows are not their first axis.
_ROWS_SECOND = frozenset({"blocks", "experts", "shares"})


@dataclass(frozen=True)
class StepBuffers:
    """Activations of a step of M rows, BF16 unless said otherwise."""

    tokens: Tensor
    """Ids, int32 [M]."""
    prefix: Tensor
    """[M, D]"""
    blocks: Tensor
    """[residual blocks, M, D]"""
    pending: Tensor
    """Output of a feed-forward part, [M, D]."""
    hidden: Tensor
    """Rows that AttnRes gives to the next part, [M, D]."""
    attended: Tensor
    """Output of an attention part, [M, D]."""
    projected: Tensor
    """Input projection of attention, [M, widest]."""
    mixed: Tensor
    """Gated values of all heads, [M, H V]."""
    compressed: Tensor
    """Normalised compressed query of MLA, [M, Q]."""
    query: Tensor
    """[M, H, N + R]"""
    absorbed: Tensor
    """[M, H, L + R]"""
    logits: Tensor
    """Router logits, FP32 [M, E]."""
    front: Tensor
    """Latent row and the shared expert's activation side by side, [M, L + S]."""
    summed: Tensor
    """Sum over a row's experts, [M, L]."""
    dense: Tensor
    """Activation of the dense part, [M, I]."""
    experts: Tensor
    """Chosen experts of each layer, int32 [layers, M, k]."""
    shares: Tensor
    """Weights of the choices, FP32 [layers, M, k]."""
    vocabulary: Tensor
    """Logits of the LM head, FP32 [M, vocabulary]."""

    def first(self, rows: int) -> "StepBuffers":
        """Views of the first rows."""
        views = {}
        for field in fields(self):
            whole = getattr(self, field.name)
            views[field.name] = whole[:, :rows] if field.name in _ROWS_SECOND else whole[:rows]
        return StepBuffers(**views)

    @property
    def bytes(self) -> int:
        """Device memory of all of them."""
        tensors = (getattr(self, field.name) for field in fields(self))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def allocate_buffers(
    dims: K3Dims, layers: int, device: torch.device, rows: int = MAX_ROWS
) -> StepBuffers:
    """Take the memory, zeroed: rows that were never written are read by nobody but must be finite.

    Args:
        dims: widths of the rank.
        layers: how many decoder layers there are.
        device: where.
        rows: of the largest step.
    """
    heads, channels = dims.num_attention_heads, dims.kda_width
    kda = 4 * channels + dims.kda_gate_rank + heads
    kda += -kda % _PACKED_ROW_MULTIPLE
    mla = dims.q_lora_rank + dims.mla_row + heads * dims.v_head_dim
    hidden, top_k = dims.hidden_size, dims.num_experts_per_token

    def zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    return StepBuffers(
        tokens=zeros(rows, dtype=torch.int32),
        prefix=zeros(rows, hidden),
        blocks=zeros(dims.num_residual_blocks, rows, hidden),
        pending=zeros(rows, hidden),
        hidden=zeros(rows, hidden),
        attended=zeros(rows, hidden),
        projected=zeros(rows, max(kda, mla)),
        mixed=zeros(rows, max(channels, heads * dims.v_head_dim)),
        compressed=zeros(rows, dims.q_lora_rank),
        query=zeros(rows, heads, dims.qk_head_dim),
        absorbed=zeros(rows, heads, dims.mla_row),
        logits=zeros(rows, dims.num_experts, dtype=torch.float32),
        front=zeros(rows, dims.latent_size + dims.shared_intermediate_size),
        summed=zeros(rows, dims.latent_size),
        dense=zeros(rows, dims.dense_intermediate_size),
        experts=zeros(layers, rows, top_k, dtype=torch.int32),
        shares=zeros(layers, rows, top_k, dtype=torch.float32),
        vocabulary=zeros(rows, dims.vocab_size, dtype=torch.float32),
    )


@dataclass(frozen=True)
class DecodeState:
    """What requests carry from step to step, and which of it belongs to whom.

    Page 0 of the KDA state is the null page of padding.
    """

    kda_taps: dict[int, Tensor]
    """By layer number, BF16 [pages, q + 2, 3 C]."""
    kda_memory: dict[int, Tensor]
    """By layer number, FP32 [pages, H, 128, 128]."""
    mla_pages: dict[int, Tensor]
    """By layer number, BF16 [pages, page tokens, L + R]."""
    kda_slots: Tensor
    """Pages of each request, int32 [B, q]; 0 for padding."""
    accepted: Tensor
    """Tokens of each request that the last step kept, int32 [B]."""
    cache_slots: Tensor
    """Place of each new row in the cache, int64 [M]; -1 stores nothing."""
    table: Tensor
    """Cache pages of each request, int32 [B, longest]."""
    lengths: Tensor
    """Tokens of each request with this step's, int32 [B]; 0 for padding."""


def allocate_state(
    dims: K3Dims,
    layers: range,
    batch: Batch,
    device: torch.device,
    *,
    context: int,
    page_tokens: int = 64,
) -> DecodeState:
    """State of the largest batch with so many tokens each, without content; all rows are padding.

    Args:
        dims: widths of the rank.
        layers: numbers of the layers that have state.
        batch: the largest.
        device: where.
        context: most tokens of a request, those of the step included.
        page_tokens: tokens of a cache page.
    """
    pages_each = -(-context // page_tokens)
    kda_pages = _NULL_PAGES + batch.requests * batch.tokens
    window = dims.kda_conv_taps - 2 + batch.tokens
    heads, width = dims.num_attention_heads, dims.kda_head_dim
    kda = [number for number in layers if not dims.is_mla(number)]
    mla = [number for number in layers if dims.is_mla(number)]
    bf16, int32 = torch.bfloat16, torch.int32

    def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(*shape, dtype=dtype, device=device)

    return DecodeState(
        kda_taps={n: zeros(kda_pages, window, 3 * dims.kda_width, dtype=bf16) for n in kda},
        kda_memory={n: zeros(kda_pages, heads, width, width, dtype=torch.float32) for n in kda},
        mla_pages={
            n: zeros(batch.requests * pages_each, page_tokens, dims.mla_row, dtype=bf16)
            for n in mla
        },
        kda_slots=zeros(batch.requests, batch.tokens, dtype=int32),
        accepted=torch.ones(batch.requests, dtype=int32, device=device),
        cache_slots=torch.full((batch.rows,), -1, dtype=torch.int64, device=device),
        table=torch.arange(batch.requests * pages_each, dtype=int32, device=device).view(
            batch.requests, pages_each
        ),
        lengths=zeros(batch.requests, dtype=int32),
    )

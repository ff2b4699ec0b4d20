"""State of a layer's check: from the reference's form into the executor's memory and back.

Everything else of that memory is NaN before a step, so that a wrong place shows.
"""

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState
from k3decode.decode.layer_reference import LayerInputs, LayerOutputs
from k3decode.dims import K3Dims

__all__ = ["carried", "first_inputs", "kept_tokens", "place_state", "written_state"]


class _Rows(Protocol):
    """Rows of several tokens."""

    @property
    def prefix(self) -> Tensor:
        """BF16 [T, M, D]."""

    @property
    def blocks(self) -> Tensor:
        """BF16 [blocks, T, M, D]."""


def kept_tokens(step: int, tokens: int) -> int:
    """How many tokens of a step are kept: one, two and so on up to all, and again."""
    return 1 + step % tokens


def first_inputs(dims: K3Dims, number: int, stream: _Rows) -> LayerInputs:
    """Inputs of a layer that has seen nothing."""
    rows = stream.prefix[0]
    requests, heads, width = rows.shape[0], dims.num_attention_heads, dims.kda_head_dim
    if dims.is_mla(number):
        cache = rows.new_zeros(requests, 0, dims.mla_row)
        return LayerInputs(rows, None, stream.blocks[:, 0], cache=cache)
    return LayerInputs(
        rows,
        None,
        stream.blocks[:, 0],
        taps=rows.new_zeros(requests, dims.kda_conv_taps - 1, 3 * dims.kda_width),
        memory=torch.zeros(requests, heads, width, width, device=rows.device),
    )


def carried(inputs: LayerInputs, outputs: LayerOutputs) -> LayerInputs:
    """Inputs with the state that a token leaves, not rounded."""
    cache = inputs.cache
    if cache is not None and outputs.row is not None:
        cache = torch.cat([cache.to(outputs.row.dtype), outputs.row[:, None]], dim=1)
    return replace(inputs, taps=outputs.taps, memory=outputs.memory, cache=cache)


def place_state(
    state: DecodeState, number: int, inputs: LayerInputs, batch: Batch, kept: int
) -> None:
    """Put a state where a step of the batch finds it.

    Args:
        state: of the largest batch, which is this one.
        number: 0-based layer number.
        inputs: their state, in the formats in which it is stored.
        batch: all of its requests live.
        kept: tokens that the step before has kept, 1 up to those of the batch.
    """
    requests, tokens = batch.requests, batch.tokens
    device = state.lengths.device
    if inputs.memory is not None and inputs.taps is not None:
        slots = 1 + torch.arange(requests * tokens, device=device).view(requests, tokens)
        state.kda_slots.copy_(slots)
        state.accepted.fill_(kept)
        state.kda_memory[number].fill_(torch.nan)
        state.kda_memory[number][slots[:, kept - 1]] = inputs.memory
        live = inputs.taps.shape[1]
        state.kda_taps[number].fill_(torch.nan)
        state.kda_taps[number][slots[:, 0], kept - 1 : kept - 1 + live] = inputs.taps
    if inputs.cache is not None:
        view, past = _cache_view(state, number), inputs.cache.shape[1]
        view[:, :past].copy_(inputs.cache)
        view[:, past:] = torch.nan
        state.lengths.fill_(past + tokens)
        places = past + torch.arange(tokens, device=device)
        first = torch.arange(requests, device=device) * view.shape[1]
        state.cache_slots.copy_((first[:, None] + places).flatten())


def written_state(state: DecodeState, number: int, batch: Batch) -> dict[str, Tensor]:
    """What a step has left for each request and token, as the reference names it."""
    tokens = batch.tokens
    if number in state.mla_pages:
        view, past = _cache_view(state, number), int(state.lengths[0]) - tokens
        return {"row": view[:, past : past + tokens].clone()}
    slots = state.kda_slots.long()
    window = state.kda_taps[number][slots[:, 0]]
    live = window.shape[1] - tokens + 1
    taps = [window[:, token : token + live] for token in range(tokens)]
    return {
        "memory": state.kda_memory[number][slots].clone(),
        "taps": torch.stack(taps, dim=1),
    }


def _cache_view(state: DecodeState, number: int) -> Tensor:
    """Cache rows by request and place, [B, places, L + R]."""
    pages = state.mla_pages[number]
    return pages.view(state.lengths.shape[0], -1, pages.shape[-1])

"""From the engine's caches and metadata of a step to the state that our launches take.

All tensors stay the engine's own: pages of KDA's taps and memory, the paged cache of MLA, and who
owns which page. So a step of ours may follow one of stock, and the other way round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.buffers import DecodeState
from k3decode.vllm_plugin.gpu.engine_weights import is_kda
from k3decode.vllm_plugin.gpu.step_path import EngineStep

__all__ = ["AttentionLayer", "describe_step", "engine_step", "layer_states"]


@dataclass(frozen=True)
class AttentionLayer:
    """Attention of one decoder layer, as the engine has it."""

    number: int
    module: Any

    @property
    def key(self) -> str:
        """Name under which metadata and slots of a step are found."""
        return str(self.module.prefix if is_kda(self.module) else self.module.layer_name)


def engine_step(
    layers: Sequence[AttentionLayer], metadata: object, rows: int, *, piecewise: bool, given: bool
) -> EngineStep:
    """What a step is, from its metadata.

    Args:
        layers: of the model.
        metadata: of the step by layer; anything else where there is none.
        rows: tokens of the step with its padding.
        piecewise: whether only pieces of it are captured.
        given: whether it brings embeddings.
    """
    found: list[Any] = []
    if isinstance(metadata, Mapping):
        found = [metadata.get(one.key) for one in layers]
    if not found or any(one is None for one in found):
        return EngineStep(rows, has_metadata=False, piecewise=piecewise, embeddings_given=given)
    states = [md for one, md in zip(layers, found, strict=True) if is_kda(one.module)]
    caches = [md for one, md in zip(layers, found, strict=True) if not is_kda(one.module)]
    return EngineStep(
        rows,
        has_metadata=True,
        prompt_requests=max((md.num_prefills for md in [*states, *caches]), default=0),
        decode_requests=max((md.num_decodes for md in states), default=0),
        verify_requests=max((md.num_spec_decodes for md in states), default=0),
        one_row_each=all(
            md.num_decodes == md.num_decode_tokens == rows and md.decode is not None
            for md in caches
        )
        and all(
            md.non_spec_state_indices_tensor is not None
            and md.non_spec_state_indices_tensor.shape[0] == rows
            for md in states
        ),
        embeddings_given=given,
        piecewise=piecewise,
    )


def layer_states(
    layers: Sequence[AttentionLayer],
    metadata: Mapping[str, Any],
    slots: Mapping[str, Tensor],
    rows: int,
) -> dict[int, DecodeState]:
    """State of each layer in a step of single tokens; layers of other groups have other pages.

    Args:
        layers: of the model.
        metadata: of the step by layer.
        slots: place of each row in the attention cache, by layer.
        rows: requests of the step with its padding.
    """
    found = {}
    for one in layers:
        md = metadata[one.key]
        state = _kda if is_kda(one.module) else _mla
        found[one.number] = state(one, md, slots.get(one.key), rows)
    return found


def _kda(layer: AttentionLayer, md: Any, _slots: Tensor | None, rows: int) -> DecodeState:
    taps, memory = layer.module.kv_cache[:2]
    pages = md.non_spec_state_indices_tensor[:rows]
    return DecodeState(
        kda_taps={layer.number: taps},
        kda_memory={layer.number: memory},
        mla_pages={},
        kda_slots=pages.unsqueeze(1),
        # Read with drafts only.
        accepted=pages,
        cache_slots=pages,
        table=pages.unsqueeze(1),
        lengths=pages,
    )


def _mla(layer: AttentionLayer, md: Any, slots: Tensor | None, rows: int) -> DecodeState:
    if slots is None:
        raise ValueError(
            f"layer {layer.number}: expected the step's slots under {layer.key}, found none: ask "
            "for decode_backend stock"
        )
    lengths = md.decode.seq_lens[:rows]
    return DecodeState(
        kda_taps={},
        kda_memory={},
        mla_pages={layer.number: layer.module.kv_cache},
        kda_slots=lengths.unsqueeze(1),
        accepted=lengths,
        cache_slots=slots[:rows],
        table=md.decode.block_table[:rows],
        lengths=lengths,
    )


def describe_step(layers: Sequence[AttentionLayer], metadata: object, slots: object) -> list[str]:
    """Shapes, strides and formats of everything a step brings, a line for each tensor."""
    lines = []
    for one in layers:
        caches = one.module.kv_cache
        named = dict(enumerate(caches)) if isinstance(caches, list | tuple) else {"": caches}
        lines += [_line(one, f"kv_cache{name}", cache) for name, cache in named.items()]
        md = metadata.get(one.key) if isinstance(metadata, Mapping) else None
        lines += _fields(one, "", md)
        lines += _fields(one, "decode.", getattr(md, "decode", None))
        if isinstance(slots, Mapping) and one.key in slots:
            lines.append(_line(one, "slots", slots[one.key]))
    return lines


def _fields(layer: AttentionLayer, prefix: str, md: object) -> list[str]:
    if md is None:
        return [f"layer {layer.number} {prefix or 'metadata'} None"]
    named = [(name, value) for name, value in vars(md).items() if value is not None]
    return [
        _line(layer, prefix + name, value)
        for name, value in named
        if isinstance(value, Tensor | int | bool)
    ]


def _line(layer: AttentionLayer, name: str, value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return f"layer {layer.number} {name} {value}"
    return (
        f"layer {layer.number} {name} {list(value.shape)} strides {list(value.stride())} "
        f"{value.dtype} offset {value.storage_offset()}"
    )

"""A whole decoder made of op references, without an engine: what served answers must equal."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.model.skeleton import hidden_rows, logits
from k3decode.model.weights import ModelWeights
from k3decode.ops.kda.reference import (
    KdaState,
    KdaWeights,
    kda_chunked,
    kda_output,
    kda_project,
    kda_recurrent,
)
from k3decode.ops.mla.reference import MlaWeights, mla_absorbed, mla_unabsorbed

__all__ = ["DecoderState", "ReferenceDecoder", "empty_state"]


@dataclass(frozen=True)
class DecoderState:
    """What one sequence carries between calls."""

    kda: dict[int, KdaState]
    """By layer number; batch of one."""
    mla: dict[int, Tensor]
    """Cache rows by layer number, [S, L + R]."""


def empty_state(dims: K3Dims) -> DecoderState:
    """State of a sequence without tokens."""
    heads, width = dims.num_attention_heads, dims.kda_head_dim
    layers = range(dims.num_hidden_layers)
    return DecoderState(
        kda={
            i: KdaState(
                taps=torch.zeros(1, dims.kda_conv_taps - 1, 3 * dims.kda_width),
                memory=torch.zeros(1, heads, width, width),
            )
            for i in layers
            if not dims.is_mla(i)
        },
        mla={i: torch.zeros(0, dims.mla_row) for i in layers if dims.is_mla(i)},
    )


@dataclass(frozen=True)
class ReferenceDecoder:
    """One sequence at a time, in the form asked for.

    `kda` and `mla` choose among forms that must agree; nothing else depends on them.
    """

    weights: ModelWeights
    dims: K3Dims
    kda: Literal["recurrent", "chunked"] = "recurrent"
    mla: Literal["unabsorbed", "absorbed"] = "unabsorbed"

    def extend(self, token_ids: list[int], state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Read further tokens.

        Returns:
            Logits after each new token, [T, vocabulary], and the state after the last one.
        """
        kda, mla = dict(state.kda), dict(state.mla)

        def attend(layer: int, rows: Tensor) -> Tensor:
            weights = self.weights.layers[layer].attention
            if isinstance(weights, MlaWeights):
                form = mla_absorbed if self.mla == "absorbed" else mla_unabsorbed
                out, mla[layer] = form(rows, weights, mla[layer])
                return out
            out, kda[layer] = self._kda_layer(rows, weights, kda[layer])
            return out

        embedded = self.weights.embedding[torch.tensor(token_ids, dtype=torch.int64)]
        rows = hidden_rows(embedded, self.weights, self.dims, attend)
        return logits(rows, self.weights, self.dims), DecoderState(kda=kda, mla=mla)

    def _kda_layer(
        self, rows: Tensor, weights: KdaWeights, state: KdaState
    ) -> tuple[Tensor, KdaState]:
        form = kda_recurrent if self.kda == "recurrent" else kda_chunked
        mixed, state = form(kda_project(rows[None], weights), weights, state)
        return kda_output(mixed[0], weights), state

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """Most likely continuation of a prompt, token by token; equal logits: the lower id."""
        scores, state = self.extend(prompt, empty_state(self.dims))
        chosen: list[int] = []
        while len(chosen) < count:
            chosen.append(int(scores[-1].argmax()))
            scores, state = self.extend(chosen[-1:], state)
        return chosen

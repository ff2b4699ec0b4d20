"""Launches of a step inside the engine: as `StepLaunches`, but state is of each layer and step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from k3decode.decode.attention_launches import AttentionLaunches
from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers
from k3decode.decode.launches import PreparedLaunch, StepLaunches
from k3decode.decode.layer_weights import DecodeLayer, KdaPart, MlaPart, ModelEnds
from k3decode.dims import K3Dims
from k3decode.ops.attn_res.launch import attn_res

__all__ = ["ServedLaunches"]

_States = Mapping[int, DecodeState]


class _AttentionOfEachLayer(AttentionLaunches):
    """Attention whose layers have pages of their own."""

    def __init__(self, dims: K3Dims, batch: Batch, rows: StepBuffers, states: _States) -> None:
        super().__init__(dims, batch, rows, next(iter(states.values())))
        self.states = states

    def kda(self, part: KdaPart, number: int) -> Iterator[PreparedLaunch]:
        self._state = self.states[number]
        yield from super().kda(part, number)

    def mla(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        self._state = self.states[number]
        yield from super().mla(part, number)


class ServedLaunches(StepLaunches):
    """Launches of one batch; workspace is taken once, state is bound for each step."""

    def __init__(self, dims: K3Dims, rows: int, buffers: StepBuffers, states: _States) -> None:
        """Choose the variants of a batch and take its workspace.

        Args:
            dims: widths of the rank.
            rows: requests, of one token each.
            buffers: activations, shared with other batches.
            states: of each layer, by its number.
        """
        batch = Batch(tokens=1, requests=rows)
        super().__init__(dims, batch, buffers, next(iter(states.values())))
        self._of_each_layer = _AttentionOfEachLayer(dims, batch, self._rows, states)
        self._attention = self._of_each_layer

    @property
    def output(self) -> Tensor:
        """What a step leaves, BF16 [rows, D]; the next step overwrites it."""
        return self._rows.hidden

    def step(
        self, tokens: Tensor, layers: Sequence[DecodeLayer], ends: ModelEnds, states: _States
    ) -> list[PreparedLaunch]:
        """Launches of one step, from ids to rows in front of the model's last norm.

        Args:
            tokens: ids, int32 [rows].
            layers: of the model, in order.
            ends: embedding and last AttnRes.
            states: of each layer in this step, by its number.
        """
        self._rows = replace(self._rows, tokens=tokens)
        self._of_each_layer.states = states
        found = list(self.embedding(ends))
        for row, layer in enumerate(layers):
            found += self.layer(layer, experts_row=row)
        blocks = -(-len(layers) // self._dims.attn_res_block_size)
        return [*found, self._mixture(ends, blocks)]

    def _mixture(self, ends: ModelEnds, blocks: int) -> PreparedLaunch:
        """Last AttnRes without the norm, which the engine applies in front of its LM head."""
        rows = self._rows
        return PreparedLaunch(
            "attn_res mixture",
            partial(
                attn_res,
                rows.prefix,
                rows.pending,
                rows.blocks,
                ends.final.direction,
                None,
                rows.hidden,
                num_blocks=blocks,
                write_block=None,
                reset=False,
                eps=self._dims.rms_norm_eps,
            ),
        )

"""The launches of a decode step, in order: which op, on which memory, for which layer.

Nothing is launched here. A launch compiles its kernel when it is called for the first time, so
every step is called once before it is captured.
"""

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from k3decode.decode.attention_launches import AttentionLaunches
from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers
from k3decode.decode.feed_forward_launches import FeedForwardLaunches
from k3decode.decode.layer_weights import (
    DecodeLayer,
    DensePart,
    KdaPart,
    ModelEnds,
    MoePart,
    OwnMoePart,
    ReadingPoint,
)
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.dims import K3Dims
from k3decode.ops.attn_res.launch import attn_res
from k3decode.ops.embedding.launch import embed_rows
from k3decode.ops.projection.launch import project

__all__ = ["PreparedLaunch", "StepLaunches"]


class StepLaunches:
    """Launches of one batch on one device's memory."""

    def __init__(
        self,
        dims: K3Dims,
        batch: Batch,
        buffers: StepBuffers,
        state: DecodeState,
        *,
        drawn: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Choose the variants of a batch.

        Args:
            dims: widths of the rank, which reads router and latent projections whole.
            batch: rows of the step.
            buffers: activations, shared with other batches.
            state: of at least as many requests.
            drawn: for timing, experts and shares of each layer that replace the router's choice,
                which is made all the same; as `StepBuffers` has them.
        """
        self._dims = dims
        self._rows = buffers.first(batch.rows)
        self._attention = AttentionLaunches(dims, batch, self._rows, state)
        self._feed_forward = FeedForwardLaunches(dims, batch, self._rows, drawn)

    def embedding(self, ends: ModelEnds) -> Iterator[PreparedLaunch]:
        """From ids to the prefix of layer 0."""
        yield PreparedLaunch(
            "embedding",
            partial(
                embed_rows, self._rows.tokens, ends.embedding, self._rows.prefix, first_token=0
            ),
        )

    def layer(self, layer: DecodeLayer, *, experts_row: int) -> Iterator[PreparedLaunch]:
        """One decoder layer.

        Args:
            layer: its weights.
            experts_row: where its choice of experts is kept.
        """
        dims, number = self._dims, layer.number
        block_size = dims.attn_res_block_size
        starts_block = number % block_size == 0
        blocks = -(-number // block_size)
        yield self._before(layer, experts_row, blocks, blocks if starts_block else None)
        if isinstance(layer.attention, KdaPart):
            yield from self._attention.kda(layer.attention, number)
        else:
            yield from self._attention.mla(layer.attention, number)
        yield self._after(layer, experts_row, blocks + int(starts_block), starts_block)
        if isinstance(layer.feed_forward, DensePart):
            yield from self._feed_forward.dense(layer.feed_forward)
        else:
            yield from self._moe(number, layer.feed_forward, experts_row)

    def _before(
        self, layer: DecodeLayer, _experts_row: int, blocks: int, write_block: int | None
    ) -> PreparedLaunch:
        """AttnRes in front of attention."""
        added = "pending" if layer.number else None
        return self._reading(
            "before", layer.before, blocks=blocks, added=added, write_block=write_block
        )

    def _after(
        self, layer: DecodeLayer, _experts_row: int, blocks: int, reset: bool
    ) -> PreparedLaunch:
        """AttnRes behind attention."""
        return self._reading("after", layer.after, blocks=blocks, added="attended", reset=reset)

    def _moe(
        self, number: int, part: MoePart | OwnMoePart, experts_row: int
    ) -> Iterator[PreparedLaunch]:
        if isinstance(part, OwnMoePart):
            raise TypeError(
                f"layer {number}: expected weights that read router and latent projections whole, "
                "found a rank's own rows: give the executor exchanges"
            )
        return self._feed_forward.moe(part, experts_row)

    def head(self, ends: ModelEnds, *, layers: int) -> Iterator[PreparedLaunch]:
        """From the output of the last of so many layers to logits."""
        rows = self._rows
        yield self._final(ends.final, layers, -(-layers // self._dims.attn_res_block_size))
        yield PreparedLaunch(
            "lm_head", partial(project, rows.hidden, ends.lm_head, None, rows.vocabulary)
        )

    def _final(self, point: ReadingPoint, _layers: int, blocks: int) -> PreparedLaunch:
        """AttnRes in front of the LM head."""
        return self._reading("final", point, blocks=blocks, added="pending")

    def _reading(
        self,
        name: str,
        point: ReadingPoint,
        *,
        blocks: int,
        added: str | None,
        write_block: int | None = None,
        reset: bool = False,
    ) -> PreparedLaunch:
        rows = self._rows
        return PreparedLaunch(
            f"attn_res {name}",
            partial(
                attn_res,
                rows.prefix,
                None if added is None else getattr(rows, added),
                rows.blocks,
                point.direction,
                point.output_norm,
                rows.hidden,
                num_blocks=blocks,
                write_block=write_block,
                reset=reset,
                eps=self._dims.rms_norm_eps,
            ),
        )

"""The launches of a decode step of one rank among peers: as many kernels as without.

Each exchange is part of the kernel that uses what it brings: AttnRes, expert selection, latent
norm. Attention is the same as without peers; its output is then a part of a sum.
"""

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers
from k3decode.decode.exchanges import RankExchanges
from k3decode.decode.feed_forward_launches import FeedForwardLaunches
from k3decode.decode.launches import StepLaunches
from k3decode.decode.layer_weights import (
    DecodeLayer,
    MoePart,
    OwnMoePart,
    ReadingPoint,
)
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.dims import K3Dims
from k3decode.ops.exchange_attn_res.launch import exchange_attn_res
from k3decode.ops.exchange_latent_norm.launch import config_for as latent_norm_config
from k3decode.ops.exchange_latent_norm.launch import exchange_latent_norm
from k3decode.ops.exchange_route.launch import config_for as route_config
from k3decode.ops.exchange_route.launch import exchange_route
from k3decode.ops.projection.launch import project

__all__ = ["RankLaunches"]


class _OwnFeedForward(FeedForwardLaunches):
    """MoE of a rank's own rows; the output is the rank's columns."""

    def __init__(
        self,
        dims: K3Dims,
        batch: Batch,
        rows: StepBuffers,
        drawn: tuple[Tensor, Tensor] | None,
        exchanges: RankExchanges,
    ) -> None:
        super().__init__(dims, batch, rows, drawn)
        self._exchanges = exchanges

    def own_moe(self, part: OwnMoePart, experts_row: int) -> Iterator[PreparedLaunch]:
        """Front, gather with expert selection, experts, sum with latent norm, tail."""
        dims, rows, x, count = self._dims, self._rows, self._exchanges, self._batch.rows
        own_front, own_logits = x.own_front[:count], x.own_logits[:count]
        gathered = x.gathered[:count]
        latent = gathered[:, : dims.latent_size]
        yield PreparedLaunch(
            "projection own_front",
            partial(
                project,
                rows.hidden,
                part.front,
                own_front,
                own_logits,
                situ=self._situ,
                plain_rows=(dims.num_experts + dims.latent_size) // x.ranks,
            ),
        )
        yield PreparedLaunch(
            "exchange_route",
            partial(
                exchange_route,
                own_logits,
                own_front,
                part.correction_bias,
                rows.logits,
                rows.experts[experts_row],
                rows.shares[experts_row],
                gathered,
                x.front.mailbox.place(experts_row, count),
                config=route_config(dims, x.ranks, x.ranks * dims.shared_intermediate_size),
            ),
        )
        yield self._routed(part.experts, latent, experts_row)
        yield PreparedLaunch(
            "exchange_latent_norm",
            partial(
                exchange_latent_norm,
                rows.summed,
                part.latent_norm,
                latent,
                x.latent.mailbox.place(experts_row, count),
                config=latent_norm_config(dims, x.ranks),
            ),
        )
        yield PreparedLaunch(
            "projection own_tail", partial(project, gathered, part.tail, x.own_output[:count])
        )


class RankLaunches(StepLaunches):
    """Launches of one batch of a rank that has peers."""

    def __init__(
        self,
        dims: K3Dims,
        batch: Batch,
        buffers: StepBuffers,
        state: DecodeState,
        exchanges: RankExchanges,
        *,
        drawn: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Choose the variants of a batch; see `StepLaunches`."""
        super().__init__(dims, batch, buffers, state, drawn=drawn)
        self._count = batch.rows
        self._exchanges = exchanges
        self._own = _OwnFeedForward(dims, batch, self._rows, drawn, exchanges)
        # Dense layers go through it too, so the other's workspace is not kept.
        self._feed_forward = self._own

    def _before(
        self, layer: DecodeLayer, experts_row: int, blocks: int, write_block: int | None
    ) -> PreparedLaunch:
        if not layer.number:
            return super()._before(layer, experts_row, blocks, write_block)
        own, place = self._output_before(layer.number, experts_row)
        return self._exchange(
            "before", layer.before, own, place, blocks=blocks, write_block=write_block
        )

    def _after(
        self, layer: DecodeLayer, experts_row: int, blocks: int, reset: bool
    ) -> PreparedLaunch:
        place = self._exchanges.attention.mailbox.place(experts_row, self._count)
        own = self._rows.attended
        return self._exchange("after", layer.after, own, place, blocks=blocks, reset=reset)

    def _moe(
        self, number: int, part: MoePart | OwnMoePart, experts_row: int
    ) -> Iterator[PreparedLaunch]:
        if isinstance(part, MoePart):
            raise TypeError(
                f"layer {number}: expected weights of a rank's own rows, found some that read "
                "router and latent projections whole: pack them with `own`"
            )
        return self._own.own_moe(part, experts_row)

    def _final(self, point: ReadingPoint, layers: int, blocks: int) -> PreparedLaunch:
        own, place = self._output_before(layers, layers)
        return self._exchange("final", point, own, place, blocks=blocks)

    def _output_before(self, number: int, experts_row: int) -> tuple[Tensor, Place]:
        """What this rank brings of the output of the layer in front of a number, and where."""
        x, rows = self._exchanges, self._count
        if self._dims.is_dense(number - 1):
            return self._rows.pending, x.dense.mailbox.place(experts_row, rows)
        return x.own_output[:rows], x.output.mailbox.place(experts_row, rows)

    def _exchange(
        self,
        name: str,
        point: ReadingPoint,
        own: Tensor,
        place: Place,
        *,
        blocks: int,
        write_block: int | None = None,
        reset: bool = False,
    ) -> PreparedLaunch:
        rows = self._rows
        return PreparedLaunch(
            f"exchange_attn_res {name}",
            partial(
                exchange_attn_res,
                rows.prefix,
                own,
                rows.blocks,
                point.direction,
                point.output_norm,
                rows.hidden,
                place,
                num_blocks=blocks,
                write_block=write_block,
                reset=reset,
                eps=self._dims.rms_norm_eps,
            ),
        )

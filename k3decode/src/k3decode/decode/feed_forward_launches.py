"""Launches of the feed-forward part of a layer: dense, and latent MoE in five kernels."""

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import StepBuffers
from k3decode.decode.layer_weights import DensePart, MoePart
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.dims import K3Dims
from k3decode.ops.experts.launch import config_for as experts_config
from k3decode.ops.experts.launch import make_workspace, run_experts
from k3decode.ops.experts.packing import PackedExperts
from k3decode.ops.latent_norm.launch import config_for as latent_norm_config
from k3decode.ops.latent_norm.launch import normalise_latent
from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.launch import project
from k3decode.ops.router.launch import route_rows

__all__ = ["FeedForwardLaunches"]


class FeedForwardLaunches:
    """Feed-forward part of one batch; input and output are `hidden` and `pending`."""

    def __init__(
        self,
        dims: K3Dims,
        batch: Batch,
        rows: StepBuffers,
        drawn: tuple[Tensor, Tensor] | None,
    ) -> None:
        """Take the workspace of the experts.

        Args:
            dims: widths of the rank, which reads router and latent projections whole.
            batch: rows of the step.
            rows: activations of as many rows.
            drawn: see `StepLaunches`.
        """
        self._dims = dims
        self._batch = batch
        self._rows = rows
        self._drawn = drawn
        self._situ = SituBounds(dims.situ_beta, dims.situ_linear_beta)
        # Its size does not depend on the scales.
        config = experts_config(dims, 1, rows=batch.rows, wide_scales=False)
        self._workspace = make_workspace(config, rows.prefix.device)

    def dense(self, part: DensePart) -> Iterator[PreparedLaunch]:
        """Gate and up with their activation, down."""
        rows = self._rows
        yield PreparedLaunch(
            "projection dense_in",
            partial(project, rows.hidden, part.gate_up, rows.dense, situ=self._situ),
        )
        yield PreparedLaunch(
            "projection dense_out", partial(project, rows.dense, part.down, rows.pending)
        )

    def moe(self, part: MoePart, experts_row: int) -> Iterator[PreparedLaunch]:
        """Front, router, experts, latent norm, tail.

        Args:
            part: weights.
            experts_row: where the choice of experts is kept.
        """
        dims, rows = self._dims, self._rows
        experts, shares = rows.experts[experts_row], rows.shares[experts_row]
        yield PreparedLaunch(
            "projection front",
            partial(
                project,
                rows.hidden,
                part.front,
                rows.front,
                rows.logits,
                situ=self._situ,
                plain_rows=dims.num_experts + dims.latent_size,
            ),
        )
        yield PreparedLaunch(
            "router",
            partial(
                route_rows,
                rows.logits,
                part.correction_bias,
                experts,
                shares,
                scaling_factor=dims.routed_scaling_factor,
            ),
        )
        latent = rows.front[:, : dims.latent_size]
        yield self._routed(part.experts, latent, experts_row)
        # The latent row has been used: its normalised sum takes its place beside the shared part.
        yield PreparedLaunch(
            "latent_norm",
            partial(
                normalise_latent,
                rows.summed,
                part.latent_norm,
                latent,
                config=latent_norm_config(dims),
            ),
        )
        yield PreparedLaunch(
            "projection tail",
            partial(project, rows.front, part.tail, rows.pending),
        )

    def _routed(self, packed: PackedExperts, latent: Tensor, experts_row: int) -> PreparedLaunch:
        """Experts that were chosen, or drawn."""
        rows = self._rows
        experts, shares = rows.experts[experts_row], rows.shares[experts_row]
        if self._drawn is not None:
            experts, shares = (one[experts_row, : self._batch.rows] for one in self._drawn)
        wide = packed.wide_scales
        config = experts_config(self._dims, 1, rows=self._batch.rows, wide_scales=wide)
        return PreparedLaunch(
            "experts",
            partial(
                run_experts,
                latent,
                experts,
                shares,
                packed,
                self._workspace,
                rows.summed,
                config=config,
            ),
        )

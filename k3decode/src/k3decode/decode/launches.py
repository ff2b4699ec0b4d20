"""The launches of a decode step, in order: which op, on which memory, for which layer.

Nothing is launched here. A launch compiles its kernel when it is called for the first time, so
every step is called once before it is captured.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers
from k3decode.decode.layer_weights import (
    DecodeLayer,
    DensePart,
    KdaPart,
    MlaPart,
    ModelEnds,
    MoePart,
    ReadingPoint,
)
from k3decode.dims import K3Dims
from k3decode.ops.attn_res.launch import attn_res
from k3decode.ops.embedding.launch import embed_rows
from k3decode.ops.experts.launch import config_for as experts_config
from k3decode.ops.experts.launch import make_workspace, run_experts
from k3decode.ops.kda.launch import config_for as kda_config
from k3decode.ops.kda.launch import kda_step
from k3decode.ops.latent_norm.launch import config_for as latent_norm_config
from k3decode.ops.latent_norm.launch import normalise_latent
from k3decode.ops.mla_combine.launch import CutRows, ValueLift, mla_combine
from k3decode.ops.mla_combine.launch import config_for as combine_config
from k3decode.ops.mla_decode.launch import (
    PagedCache,
    Partials,
    make_partials,
    mla_decode,
    split_rule,
)
from k3decode.ops.mla_decode.launch import config_for as attention_config
from k3decode.ops.mla_prepare.launch import config_for as prepare_config
from k3decode.ops.mla_prepare.launch import mla_prepare
from k3decode.ops.mla_query.launch import config_for as query_config
from k3decode.ops.mla_query.launch import mla_query
from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.launch import project
from k3decode.ops.router.launch import route_rows

__all__ = ["PreparedLaunch", "StepLaunches"]

_CACHE_FORMAT = "bf16"


@dataclass(frozen=True)
class PreparedLaunch:
    """One call with all its arguments."""

    name: str
    """Op and what it is for."""
    run: Callable[[], None]
    kernels: int = 1
    """Kernels that it launches."""


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
        self._batch = batch
        self._rows = buffers.first(batch.rows)
        self._state = state
        self._drawn = drawn
        self._situ = SituBounds(dims.situ_beta, dims.situ_linear_beta)
        self._attention = attention_config(dims, _CACHE_FORMAT)
        # Its size does not depend on the scales.
        experts = experts_config(dims, 1, rows=batch.rows, wide_scales=False)
        self._workspace = make_workspace(experts, buffers.prefix.device)
        self._partials: Partials = make_partials(
            self._attention,
            batch.rows,
            dims.num_attention_heads,
            buffers.prefix.device,
            batch.tokens,
        )

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
        yield self._reading(
            "before",
            layer.before,
            blocks=blocks,
            added="pending" if number else None,
            write_block=blocks if starts_block else None,
        )
        if isinstance(layer.attention, KdaPart):
            yield from self._kda(layer.attention, number)
        else:
            yield from self._mla(layer.attention, number)
        yield self._reading(
            "after",
            layer.after,
            blocks=blocks + int(starts_block),
            added="attended",
            reset=starts_block,
        )
        if isinstance(layer.feed_forward, DensePart):
            yield from self._dense(layer.feed_forward)
        else:
            yield from self._moe(layer.feed_forward, experts_row)

    def head(self, ends: ModelEnds, *, layers: int) -> Iterator[PreparedLaunch]:
        """From the output of the last of so many layers to logits."""
        rows = self._rows
        blocks = -(-layers // self._dims.attn_res_block_size)
        yield self._reading("final", ends.final, blocks=blocks, added="pending")
        yield PreparedLaunch(
            "lm_head", partial(project, rows.hidden, ends.lm_head, None, rows.vocabulary)
        )

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

    def _kda(self, part: KdaPart, number: int) -> Iterator[PreparedLaunch]:
        dims, rows, state, batch = self._dims, self._rows, self._state, self._batch
        width = part.in_proj.shape[0]
        projected = rows.projected[:, :width]
        yield PreparedLaunch(
            "projection kda_in",
            partial(project, rows.hidden, part.in_proj, projected),
        )
        mixed = rows.mixed[:, : dims.kda_width]
        # One variant's taps lie closer together than the largest batch may want them.
        window = dims.kda_conv_taps - 2 + batch.tokens
        yield PreparedLaunch(
            "kda",
            partial(
                kda_step,
                projected,
                part.step,
                state.kda_slots[: batch.requests, : batch.tokens],
                state.kda_taps[number][:, :window],
                state.kda_memory[number],
                mixed,
                config=kda_config(
                    dims, dims.num_attention_heads, batch.tokens, requests=batch.requests
                ),
                accepted=state.accepted[: batch.requests] if batch.tokens > 1 else None,
            ),
        )
        yield PreparedLaunch(
            "projection kda_out",
            partial(project, mixed, part.o_proj, rows.attended),
        )

    def _mla(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        dims, rows = self._dims, self._rows
        values = dims.num_attention_heads * dims.v_head_dim
        projected = rows.projected[:, : part.in_proj.shape[0]]
        mixed = rows.mixed[:, :values]
        yield PreparedLaunch(
            "projection mla_in",
            partial(project, rows.hidden, part.in_proj, projected),
        )
        yield PreparedLaunch(
            "mla_prepare",
            partial(
                mla_prepare,
                projected,
                part.query_norm,
                part.latent_norm,
                self._state.cache_slots[: self._batch.rows],
                rows.compressed,
                self._state.mla_pages[number],
                config=prepare_config(dims, _CACHE_FORMAT),
            ),
        )
        yield PreparedLaunch(
            "projection q_b",
            partial(project, rows.compressed, part.q_b, rows.query.flatten(1)),
        )
        yield PreparedLaunch(
            "mla_query",
            partial(
                mla_query,
                rows.query,
                part.key_up,
                rows.absorbed,
                config=query_config(dims, _CACHE_FORMAT),
            ),
        )
        yield from self._attend(part, number)
        yield PreparedLaunch(
            "projection mla_out",
            partial(project, mixed, part.o_proj, rows.attended),
        )

    def _attend(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        dims, rows, state, batch = self._dims, self._rows, self._state, self._batch
        values = dims.num_attention_heads * dims.v_head_dim
        lengths = state.lengths[: batch.requests]
        yield PreparedLaunch(
            "mla_decode",
            partial(
                mla_decode,
                rows.absorbed,
                PagedCache(
                    pages=state.mla_pages[number],
                    table=state.table[: batch.requests],
                    lengths=lengths,
                    tokens_per_request=batch.tokens,
                ),
                self._partials,
                config=self._attention,
                score_scale=dims.mla_scale,
            ),
        )
        gate = rows.projected[:, dims.q_lora_rank + dims.mla_row :][:, :values]
        yield PreparedLaunch(
            "mla_combine",
            partial(
                mla_combine,
                self._partials,
                rows.mixed[:, :values],
                config=combine_config(dims, "parts", "values"),
                cut=CutRows(
                    lengths=lengths,
                    rule=split_rule(self._attention, lengths.device),
                    tokens_per_request=batch.tokens,
                ),
                lift=ValueLift(value_up=part.value_up, gate=gate),
            ),
        )

    def _dense(self, part: DensePart) -> Iterator[PreparedLaunch]:
        rows = self._rows
        yield PreparedLaunch(
            "projection dense_in",
            partial(project, rows.hidden, part.gate_up, rows.dense, situ=self._situ),
        )
        yield PreparedLaunch(
            "projection dense_out", partial(project, rows.dense, part.down, rows.pending)
        )

    def _moe(self, part: MoePart, experts_row: int) -> Iterator[PreparedLaunch]:
        dims, rows = self._dims, self._rows
        experts, shares = rows.experts[experts_row], rows.shares[experts_row]
        latent = rows.front[:, : dims.latent_size]
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
        packed = part.experts
        config = experts_config(dims, 1, rows=self._batch.rows, wide_scales=packed.wide_scales)
        if self._drawn is not None:
            experts, shares = (one[experts_row, : self._batch.rows] for one in self._drawn)
        yield PreparedLaunch(
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

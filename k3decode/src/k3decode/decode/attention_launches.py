"""Launches of the attention part of a layer: KDA, and MLA in seven kernels."""

from collections.abc import Iterator
from functools import partial

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers
from k3decode.decode.layer_weights import KdaPart, MlaPart
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.dims import K3Dims
from k3decode.ops.kda.launch import config_for as kda_config
from k3decode.ops.kda.launch import kda_step
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
from k3decode.ops.projection.launch import project

__all__ = ["AttentionLaunches"]

_CACHE_FORMAT = "bf16"


class AttentionLaunches:
    """Attention of one batch; input and output are `hidden` and `attended` of the buffers."""

    def __init__(self, dims: K3Dims, batch: Batch, rows: StepBuffers, state: DecodeState) -> None:
        """Choose variants and take the workspace of attention.

        Args:
            dims: widths of the rank.
            batch: rows of the step.
            rows: activations of as many rows.
            state: of at least as many requests.
        """
        self._dims = dims
        self._batch = batch
        self._rows = rows
        self._state = state
        self._values = dims.num_attention_heads * dims.v_head_dim
        self._attention = attention_config(dims, _CACHE_FORMAT)
        self._partials: Partials = make_partials(
            self._attention,
            batch.rows,
            dims.num_attention_heads,
            rows.prefix.device,
            batch.tokens,
        )

    def kda(self, part: KdaPart, number: int) -> Iterator[PreparedLaunch]:
        """Input projection, step, output projection."""
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

    def mla(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        """Input projection, queries and cache row, attention, output projection."""
        rows = self._rows
        projected = rows.projected[:, : part.in_proj.shape[0]]
        yield PreparedLaunch(
            "projection mla_in",
            partial(project, rows.hidden, part.in_proj, projected),
        )
        yield from self._queries(part, number)
        yield from self._attend(part, number)
        yield PreparedLaunch(
            "projection mla_out",
            partial(project, rows.mixed[:, : self._values], part.o_proj, rows.attended),
        )

    def _queries(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        dims, rows = self._dims, self._rows
        projected = rows.projected[:, : part.in_proj.shape[0]]
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

    def _attend(self, part: MlaPart, number: int) -> Iterator[PreparedLaunch]:
        dims, rows, state, batch = self._dims, self._rows, self._state, self._batch
        values = self._values
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

"""The decode path of one loaded model: decides each step, runs it on the engine's own state."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from k3decode.decode.buffers import allocate_buffers
from k3decode.decode.layer_weights import DecodeLayer, ModelEnds
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.vllm_plugin.gpu.engine_state import (
    AttentionLayer,
    describe_step,
    engine_step,
    layer_states,
)
from k3decode.vllm_plugin.gpu.served_launches import ServedLaunches
from k3decode.vllm_plugin.gpu.step_counts import StepCounts
from k3decode.vllm_plugin.gpu.step_path import StepClass, fallback_reason

__all__ = ["ServedDecode"]


class ServedDecode:
    """Serves pure decode steps of prepared numbers of rows; everything else is stock's."""

    enabled_at_start: ClassVar[bool] = True
    """Whether steps are served from the start; a check of both paths captures stock first."""

    def __init__(
        self,
        dims: K3Dims,
        layers: Sequence[DecodeLayer],
        ends: ModelEnds,
        attention: Sequence[AttentionLayer],
        *,
        prepared: frozenset[int],
    ) -> None:
        """Take the activations' memory.

        Args:
            dims: widths of the rank.
            layers: packed, in order.
            ends: embedding and last AttnRes.
            attention: the engine's, of the same layers.
            prepared: numbers of rows to serve.
        """
        device = ends.embedding.device
        self.dims = dims
        self.layers = tuple(layers)
        self.prepared = frozenset(rows for rows in prepared if rows <= MAX_ROWS)
        self.counts = StepCounts(device)
        self.reasons: dict[tuple[StepClass, int], str] = {}
        """Why stock served a kind of step of so many rows; rows 0 are more than `MAX_ROWS`."""
        self.captured: dict[int, str] = {}
        """Rows of each captured step, and `candidate` or why not."""
        self.enabled = self.enabled_at_start
        """Whether steps may be served; a check of both paths turns it on and off."""
        self.last_seen: tuple[object, object] | None = None
        """Metadata and slots of the last step."""
        self._ends = ends
        self._attention = tuple(attention)
        self._launches: dict[int, ServedLaunches] = {}
        self._begun = False
        self._buffers = allocate_buffers(
            dims, len(self.layers), device, rows=max(self.prepared, default=1)
        )

    @property
    def workspace_bytes(self) -> int:
        """Device memory of the activations that all batches share."""
        return self._buffers.bytes

    def begin(self) -> None:
        """Begin to count at the engine's first real step."""
        if not self._begun:
            self._begun = True
            self.counts.reset()

    def serve(
        self, tokens: Tensor | None, rows: int, metadata: object, slots: object, *, piecewise: bool
    ) -> Tensor | None:
        """Count a step and run it if it is the path's.

        Args:
            tokens: ids, int32 [rows]; None where embeddings are given.
            rows: of the step with its padding.
            metadata: the engine's, by layer.
            slots: place of each row in the attention cache, by layer.
            piecewise: whether only pieces of the step are captured.

        Returns:
            Rows in front of the model's last norm, in memory that the next step overwrites; None
            for a step of stock.
        """
        self.last_seen = metadata, slots
        step = engine_step(
            self._attention, metadata, rows, piecewise=piecewise, given=tokens is None
        )
        reason = fallback_reason(step, self.prepared)
        if reason is None and not self.enabled:
            reason = "the path is turned off"
        if step.has_metadata and torch.cuda.is_available() and _capturing():
            self.captured[rows] = reason or "candidate"
        if reason is not None or tokens is None:
            self.counts.add("stock", step.kind, rows)
            self.reasons[step.kind, rows if rows <= MAX_ROWS else 0] = reason or ""
            return None
        self.counts.add("candidate", step.kind, rows)
        return self._run(tokens, rows, metadata, slots)

    def _run(self, tokens: Tensor, rows: int, metadata: object, slots: object) -> Tensor:
        if not isinstance(metadata, Mapping) or not isinstance(slots, Mapping):
            raise TypeError(
                f"a step of {rows} rows: expected metadata and slots by layer, found "
                f"{type(metadata).__name__} and {type(slots).__name__}: ask for decode_backend "
                "stock"
            )
        states = layer_states(self._attention, metadata, slots, rows)
        if rows not in self._launches:
            self._launches[rows] = ServedLaunches(self.dims, rows, self._buffers, states)
        launches = self._launches[rows]
        for launch in launches.step(tokens[:rows], self.layers, self._ends, states):
            launch.run()
        return launches.output

    def describe(self, metadata: object, slots: object) -> list[str]:
        """What a step brings, a line for each tensor."""
        return describe_step(self._attention, metadata, slots)


def _capturing() -> bool:
    capturing: Any = torch.cuda.is_current_stream_capturing()
    return bool(capturing)

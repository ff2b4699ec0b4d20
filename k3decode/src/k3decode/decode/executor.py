"""Runs decode steps: all layers of one rank, each prepared batch captured in one graph.

Weights are packed and memory is taken when the executor is made. `prepare` runs a batch once, which
compiles what it needs, and captures it; afterwards a step is a copy of its inputs and one replay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, StepBuffers, allocate_buffers
from k3decode.decode.exchanges import RankExchanges
from k3decode.decode.launches import PreparedLaunch, StepLaunches
from k3decode.decode.layer_weights import DecodeLayer, ModelEnds
from k3decode.decode.rank_launches import RankLaunches
from k3decode.dims import K3Dims

__all__ = ["CapturedStep", "DecodeExecutor", "capture"]


@dataclass(frozen=True)
class CapturedStep:
    """A graph and what it is made of."""

    graph: torch.cuda.CUDAGraph
    launches: tuple[PreparedLaunch, ...]

    @property
    def kernels(self) -> int:
        """Kernels that one replay launches."""
        return sum(launch.kernels for launch in self.launches)


def capture(
    launches: Sequence[PreparedLaunch], beside: Callable[[], None] | None = None
) -> CapturedStep:
    """Run launches once, so that everything is compiled, and capture them in one graph.

    The run writes to state as every step does: set state afterwards.

    Args:
        launches: in order.
        beside: runs on a stream of its own from the beginning of the step on; None for nothing.
    """
    if beside is not None:
        beside()
    for launch in launches:
        launch.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # What the step waits for must find room before the step's own kernels do.
    side = None if beside is None else torch.cuda.Stream(priority=-1)
    with torch.cuda.graph(graph):
        if side is not None and beside is not None:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                beside()
        for launch in launches:
            launch.run()
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
    return CapturedStep(graph=graph, launches=tuple(launches))


class DecodeExecutor:
    """One rank's layers on one GPU."""

    def __init__(
        self,
        dims: K3Dims,
        layers: Sequence[DecodeLayer],
        state: DecodeState,
        *,
        ends: ModelEnds | None = None,
        exchanges: RankExchanges | None = None,
    ) -> None:
        """Take the activations' memory.

        Args:
            dims: widths of the rank.
            layers: packed, in order.
            state: of the layers and of the largest batch.
            ends: embedding and LM head; None for layers alone, from a prefix to a pending row.
            exchanges: of a rank with peers; None for one that has none and reads all it needs.
        """
        self.dims = dims
        self.layers = tuple(layers)
        self.state = state
        self._ends = ends
        self.exchanges = exchanges
        self.drawn: tuple[Tensor, Tensor] | None = None
        """For timing: experts and shares that replace the routers' choices."""
        self.buffers: StepBuffers = allocate_buffers(
            dims, len(self.layers), state.lengths.device, rows=int(state.cache_slots.shape[0])
        )
        self._captured: dict[Batch, CapturedStep] = {}

    @property
    def prepared(self) -> tuple[Batch, ...]:
        """Batches with a graph."""
        return tuple(sorted(self._captured))

    def launches(self, batch: Batch, depth: int | None = None) -> tuple[PreparedLaunch, ...]:
        """Launches of a step through the first `depth` layers, through all by default."""
        step = self._step(batch)
        found: list[PreparedLaunch] = []
        if self._ends is not None:
            found += step.embedding(self._ends)
        layers = self.layers[:depth]
        for row, layer in enumerate(layers):
            found += step.layer(layer, experts_row=row)
        if self._ends is not None:
            found += step.head(self._ends, layers=len(layers))
        return tuple(found)

    def _step(self, batch: Batch) -> StepLaunches:
        dims, buffers, state = self.dims, self.buffers, self.state
        if self.exchanges is None:
            return StepLaunches(dims, batch, buffers, state, drawn=self.drawn)
        return RankLaunches(dims, batch, buffers, state, self.exchanges, drawn=self.drawn)

    def peers(self, batch: Batch, depth: int | None = None) -> Callable[[], None] | None:
        """What brings the words of peers on this device to a step; None without exchanges."""
        if self.exchanges is None:
            return None
        layers = len(self.layers) if depth is None else depth
        return partial(self.exchanges.bring, layers, batch.rows)

    def capture(self, batch: Batch, depth: int | None = None) -> CapturedStep:
        """Compile and capture a step through the first `depth` layers, with its peers."""
        return capture(self.launches(batch, depth), self.peers(batch, depth))

    def prepare(self, batch: Batch) -> CapturedStep:
        """Compile and capture a batch."""
        self._captured[batch] = self.capture(batch)
        return self._captured[batch]

    def run(self, batch: Batch, tokens: Tensor) -> Tensor:
        """Replay a prepared batch.

        Args:
            batch: one of `prepared`.
            tokens: ids, int32 [rows].

        Returns:
            Logits, FP32 [rows, vocabulary], in memory that the next step overwrites.

        Raises:
            KeyError: the batch was not prepared.
        """
        captured = self._captured[batch]
        self.buffers.tokens[: batch.rows].copy_(tokens)
        captured.graph.replay()
        return self.buffers.vocabulary[: batch.rows]

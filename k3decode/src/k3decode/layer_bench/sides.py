"""What takes turns at one GPU: a stack of our layers, and a child with another engine's."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from k3decode.decode.batches import Batch
from k3decode.decode.executor import DecodeExecutor, capture
from k3decode.decode.whole_check import begin_step
from k3decode.layer_bench.conversation import Child
from k3decode.replay_times import event_time_us

__all__ = ["OurStack", "Side", "StockChild"]

_START_S = 240.0
_ANSWER_S = 120.0


class Side(Protocol):
    """Something whose graph is timed when it is its turn."""

    def prepare(self, rows: int) -> dict[str, Any]:
        """Get a batch ready; returns what is known of it."""

    def times(self, *, warm_up: int, replays: int) -> list[float]:
        """Microseconds of replays, after some that are not timed."""

    def release(self) -> None:
        """End with the batch."""


class OurStack:
    """The first layers of an executor."""

    def __init__(self, executor: DecodeExecutor, depth: int, *, context: int, seed: int) -> None:
        """Keep what a step is made of.

        Args:
            executor: of at least `depth` layers.
            depth: how many of them.
            context: tokens of each request.
            seed: of tokens and state.
        """
        self._executor = executor
        self._depth = depth
        self._context = context
        self._seed = seed
        self._graph: torch.cuda.CUDAGraph | None = None

    def prepare(self, rows: int) -> dict[str, Any]:
        """Capture the step of so many requests."""
        batch = Batch(tokens=1, requests=rows)
        begin = partial(
            begin_step, self._executor, batch, context=self._context, live=rows, seed=self._seed
        )
        begin()
        captured = capture(self._executor.launches(batch, self._depth))
        begin()
        self._graph = captured.graph
        return {"kernels": captured.kernels}

    def times(self, *, warm_up: int, replays: int) -> list[float]:
        """Microseconds of replays, after some that are not timed."""
        if self._graph is None:
            raise RuntimeError("expected a prepared batch, found none: call prepare before times")
        for _ in range(warm_up):
            self._graph.replay()
        return [event_time_us(self._graph.replay) for _ in range(replays)]

    def release(self) -> None:
        """Drop the graph."""
        self._graph = None


class StockChild:
    """An engine of one depth in a process of its own."""

    def __init__(self, depth: int, arguments: Sequence[str], log: Path) -> None:
        """Start it, without waiting until it is ready.

        Args:
            depth: layers.
            arguments: of the child's command line, but for the depth.
            log: file for what it prints.
        """
        module = "k3decode.layer_bench.stock_engine"
        command = [sys.executable, "-m", module, "--depth", str(depth), *arguments]
        self._child = Child(command, environment={"PYTHONUNBUFFERED": "1"}, log=log)

    def ready(self) -> dict[str, Any]:
        """Wait until it has captured everything; returns what it says of itself."""
        found: dict[str, Any] = self._child.answer(_START_S)["ready"]
        return found

    def prepare(self, rows: int) -> dict[str, Any]:
        """Let it generate with so many requests and stop in a step."""
        self._child.ask(do="step", rows=rows)
        return self._child.answer(_ANSWER_S)

    def prepare_graph(self, **question: Any) -> None:
        """Let it capture something else; `stock_engine` knows `experts` and `attention`."""
        self._child.ask(**question)
        self._child.answer(_ANSWER_S)

    def times(self, *, warm_up: int, replays: int) -> list[float]:
        """Microseconds of replays, after some that are not timed."""
        self._child.ask(do="time", warm_up=warm_up, replays=replays)
        return [float(one) for one in self._child.answer(_ANSWER_S)["us"]]

    def times_of_own_choice(self, *, warm_up: int, replays: int) -> list[float] | None:
        """The same with experts that its routers chose for the prompts; None if it has none."""
        self._child.ask(do="own", warm_up=warm_up, replays=replays)
        found = self._child.answer(_ANSWER_S)["us"]
        return None if found is None else [float(one) for one in found]

    def own_choice(self) -> dict[int, list[list[int]]] | None:
        """What its routers chose for the prompts, by layer, row by row; None if it was not kept."""
        self._child.ask(do="own_choice")
        found = self._child.answer(_ANSWER_S)["experts"]
        return None if found is None else {int(layer): each for layer, each in found.items()}

    def draw(self, experts: Sequence[Sequence[Sequence[int]]]) -> None:
        """Let the layers of its graph take these experts, by layer and row."""
        self._child.ask(do="draw", experts=experts)
        self._child.answer(_ANSWER_S)

    def release(self) -> None:
        """Let it go on from where it stopped, and wait until it has nothing to do."""
        self._child.ask(do="release")
        self._child.answer(_ANSWER_S)

    def close(self) -> None:
        """End the process."""
        self._child.close()

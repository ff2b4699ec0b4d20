"""One of our graphs beside graphs of the other engine's process, in turns."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from k3decode.layer_bench.conversation import ChildError
from k3decode.layer_bench.ratio import ratio_of_rounds
from k3decode.layer_bench.sides import StockChild
from k3decode.replay_times import event_time_us

__all__ = ["captured", "time_beside"]

_WARM_UP = 2


def time_beside(
    launches: Sequence[Callable[[], None]],
    stock: StockChild,
    questions: Mapping[str, Mapping[str, Any]],
    *,
    rounds: int,
    replays: int,
) -> dict[str, Any]:
    """Time ours before and after each of the others in every round.

    Args:
        launches: ours, one graph; each on memory of its own.
        stock: has a graph of as many launches for each question.
        questions: by name, what to ask for a graph.
        rounds: of each.
        replays: in a round.

    Returns:
        Microseconds of one launch of each, the others' over ours with Student's interval; what
        the other process could not run has its reason instead.
    """
    graph, count = captured(launches), len(launches)
    found: dict[str, Any] = {}
    ours = [statistics.median(_times(graph, replays))]
    for name, question in questions.items():
        try:
            stock.prepare_graph(**question)
        except ChildError as error:
            found[f"{name}_error"] = str(error)
            continue
        theirs, beside = [], []
        for _ in range(rounds):
            before = _times(graph, replays)
            theirs.append(statistics.median(stock.times(warm_up=_WARM_UP, replays=replays)))
            beside.append(statistics.median([*before, *_times(graph, replays)]))
        stock.release()
        ratio = ratio_of_rounds(theirs, beside)
        found[f"{name}_us"] = statistics.median(theirs) / count
        found[f"{name}_ratio"] = [ratio.mean, ratio.low, ratio.high]
        ours += beside
    return {"us": statistics.median(ours) / count, **found}


def captured(launches: Sequence[Callable[[], None]]) -> torch.cuda.CUDAGraph:
    """Run launches once, so that everything is compiled, and capture them in one graph."""
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    return graph


def _times(graph: torch.cuda.CUDAGraph, replays: int) -> list[float]:
    for _ in range(_WARM_UP):
        graph.replay()
    return [event_time_us(graph.replay) for _ in range(replays)]

"""Routed experts without the rest of a layer: ours, vLLM's, and a kernel that only reads."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.executor import DecodeExecutor
from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.layer_bench.conversation import ChildError
from k3decode.layer_bench.ratio import ratio_of_rounds
from k3decode.layer_bench.sides import StockChild, expert_launches
from k3decode.read_rate import ReadRate
from k3decode.replay_times import event_time_us

__all__ = ["expert_bytes", "time_experts"]

# Each reads experts of its own, so that the L2 cache holds none of the next replay's.
_LAYERS = 6
_WARM_UP = 2
_BACKENDS = ("engine", "marlin")


def expert_bytes(dims: K3Dims) -> int:
    """Bytes of one expert of a rank: MXFP4 values and a scale for each group."""
    weights = 3 * dims.latent_size * dims.expert_intermediate_size
    return weights // 2 + weights // MXFP4_GROUP


def time_experts(
    rows: int,
    stock: StockChild,
    executor: DecodeExecutor,
    drawn: tuple[Tensor, Tensor],
    reads: ReadRate,
    *,
    rounds: int,
    replays: int,
) -> dict[str, Any]:
    """Time them in turns, ours before and after vLLM's in each round.

    Args:
        rows: of the batch.
        stock: an engine with at least as many layers that route.
        executor: with our layers.
        drawn: experts and shares of each layer; the engine has the same.
        reads: reads as many bytes.
        rounds: of each backend.
        replays: in a round.

    Returns:
        Microseconds of one launch of each, and vLLM's over ours with Student's interval; what vLLM
        could not run has its reason instead.
    """
    dims = executor.dims
    graph = _captured(expert_launches(executor, drawn, rows, _LAYERS))
    found: dict[str, Any] = {"rows": rows, "layers": _LAYERS}
    ours = [statistics.median(_times(graph, replays))]
    for backend in _BACKENDS:
        try:
            stock.prepare_experts(backend, rows, _LAYERS)
        except ChildError as error:
            found[f"{backend}_error"] = str(error)
            continue
        theirs, beside = [], []
        for _ in range(rounds):
            before = _times(graph, replays)
            theirs.append(statistics.median(stock.times(warm_up=_WARM_UP, replays=replays)))
            beside.append(statistics.median([*before, *_times(graph, replays)]))
        stock.release()
        ratio = ratio_of_rounds(theirs, beside)
        found[f"{backend}_us"] = statistics.median(theirs) / _LAYERS
        found[f"{backend}_ratio"] = [ratio.mean, ratio.low, ratio.high]
        ours += beside
    first = dims.num_dense_layers
    chosen = drawn[0][first : first + _LAYERS, :rows]
    distinct = statistics.fmean(int(ids.unique().numel()) for ids in chosen)
    moved = round(distinct * expert_bytes(dims))
    read = reads.read_us(moved, _LAYERS)
    median = statistics.median(ours) / _LAYERS
    return {
        **found,
        "us": median,
        "distinct_experts": distinct,
        "bytes": moved,
        "read_us": read,
        "read_ratio": median / read,
    }


def _captured(launches: Sequence[Callable[[], None]]) -> torch.cuda.CUDAGraph:
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    return graph


def _times(graph: torch.cuda.CUDAGraph, replays: int) -> Sequence[float]:
    for _ in range(_WARM_UP):
        graph.replay()
    return [event_time_us(graph.replay) for _ in range(replays)]

"""Routed experts without the rest of a layer: ours, vLLM's, and a kernel that only reads."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_weights import MoePart
from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.layer_bench.beside import time_beside
from k3decode.layer_bench.sides import StockChild
from k3decode.ops.experts.launch import config_for, make_workspace, run_experts

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["expert_bytes", "time_experts"]

# Each reads experts of its own, so that the L2 cache holds none of the next replay's.
_LAYERS = 6
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
    reads: "ReadRate",
    *,
    rounds: int,
    replays: int,
) -> dict[str, Any]:
    """Time them in turns on the same draws.

    Args:
        rows: of the batch.
        stock: an engine with at least as many layers that route.
        executor: with our layers.
        drawn: experts and shares of each layer; the engine has the same.
        reads: reads as many bytes.
        rounds: of each backend.
        replays: in a round.
    """
    dims = executor.dims
    first = dims.num_dense_layers
    chosen = drawn[0][first : first + _LAYERS, :rows]
    distinct = statistics.fmean(int(ids.unique().numel()) for ids in chosen)
    moved = round(distinct * expert_bytes(dims))
    found = time_beside(
        _launches(executor, drawn, rows),
        stock,
        {
            name: {"do": "experts", "backend": name, "rows": rows, "layers": _LAYERS}
            for name in _BACKENDS
        },
        rounds=rounds,
        replays=replays,
    )
    read = reads.read_us(moved, _LAYERS)
    return {
        "rows": rows,
        "layers": _LAYERS,
        **found,
        "distinct_experts": distinct,
        "bytes": moved,
        "read_us": read,
        "read_ratio": found["us"] / read,
    }


def _launches(
    executor: DecodeExecutor, drawn: tuple[Tensor, Tensor], rows: int
) -> list[Callable[[], None]]:
    dims, device = executor.dims, executor.buffers.prefix.device
    latent = torch.randn(rows, dims.latent_size, device=device).to(torch.bfloat16)
    out = torch.empty_like(latent)
    workspace = make_workspace(config_for(dims, 1, rows=rows, wide_scales=False), device)
    found: list[Callable[[], None]] = []
    for number in range(dims.num_dense_layers, dims.num_dense_layers + _LAYERS):
        packed = cast(MoePart, executor.layers[number].feed_forward).experts
        experts, shares = (one[number, :rows] for one in drawn)
        config = config_for(dims, 1, rows=rows, wide_scales=packed.wide_scales)
        launch = partial(run_experts, latent, experts, shares, packed, workspace, out)
        found.append(partial(launch, config=config))
    return found

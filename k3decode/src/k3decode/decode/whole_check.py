"""Many layers in one graph against the same launches one at a time: the bits must be equal."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, allocate_state
from k3decode.decode.exchanges import allocate_exchanges
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.packing import OwnRows, pack_layer
from k3decode.decode.random_weights import random_ends, random_layer
from k3decode.dims import K3Dims

__all__ = ["begin_step", "check_whole", "random_executor"]

_REPLAYS = 3
_CONTEXT = 200


def random_executor(
    dims: K3Dims,
    *,
    layers: int,
    rows: int,
    context: int,
    seed: int,
    device: torch.device,
    tokens: int = 1,
    peers_of: int = 0,
) -> DecodeExecutor:
    """An executor with its own random weights in every layer.

    Args:
        dims: widths of the rank.
        layers: how many.
        rows: of the largest batch, a multiple of `tokens`.
        context: most tokens of a request, those of a step included.
        seed: equal seeds give equal weights.
        device: where.
        tokens: rows of each request.
        peers_of: ranks of which this is one, that reads its own rows and exchanges the rest with
            stand-ins; 0 for a rank without peers.
    """
    packed, own, exchanges, wide = [], None, None, dims
    if peers_of:
        own = OwnRows(rank=peers_of // 2 - 1, ranks=peers_of)
        wide = replace(dims, shared_intermediate_size=peers_of * dims.shared_intermediate_size)
        exchanges = allocate_exchanges(dims, layers, rows, own.rank, own.ranks, device, seed)
    for number in range(layers):
        tensors, experts = random_layer(wide, number, seed, device)
        packed.append(pack_layer(tensors, experts, dims, number, own=own))
    batch = Batch(tokens=tokens, requests=rows // tokens)
    state = allocate_state(dims, range(layers), batch, device, context=context)
    ends = random_ends(dims, seed, device)
    return DecodeExecutor(dims, packed, state, ends=ends, exchanges=exchanges)


def begin_step(
    executor: DecodeExecutor, batch: Batch, *, context: int, live: int, seed: int
) -> None:
    """Put a batch into its place: random tokens, random state, so many tokens with this step's.

    Requests from `live` on are padding. All tokens of the step before were kept.
    """
    state, device = executor.state, executor.state.lengths.device
    generator = torch.Generator(device).manual_seed(seed)
    for memory in state.kda_memory.values():
        memory.normal_(generator=generator).mul_(0.1)
    for stored in (*state.kda_taps.values(), *state.mla_pages.values()):
        stored.normal_(generator=generator)
    rows = executor.buffers
    rows.tokens.random_(0, executor.dims.vocab_size, generator=generator)
    requests, tokens = torch.arange(batch.requests, device=device), batch.tokens
    padding = requests >= live
    slots = 1 + torch.arange(batch.rows, device=device).view(batch.requests, tokens)
    slots[padding] = 0
    state.kda_slots[: batch.requests, :tokens] = slots
    state.accepted[: batch.requests] = torch.where(padding, 1, tokens)
    state.lengths[: batch.requests] = torch.where(padding, 0, context)
    page_tokens = next(iter(state.mla_pages.values())).shape[1] if state.mla_pages else 1
    first = requests * state.table.shape[1] * page_tokens + context - tokens
    places = first[:, None] + torch.arange(tokens, device=device)
    places[padding] = -1
    state.cache_slots[: batch.rows] = places.flatten()
    # Only rows of padding are read without having been written.
    for buffer in (rows.mixed, rows.projected):
        buffer.zero_()


def check_whole(
    dims: K3Dims,
    *,
    layers: int,
    batches: list[Batch],
    seed: int,
    device: torch.device,
    peers_of: int = 0,
) -> Iterator[dict[str, Any]]:
    """Check batches of equally many tokens one after the other; yields lines of results.

    With peers (see `random_executor`) they bring everything before the launches that are run one
    at a time, and meanwhile in a replay.
    """
    if not batches:
        return
    executor = random_executor(
        dims,
        layers=layers,
        rows=max(batches).rows,
        context=_CONTEXT,
        seed=seed,
        device=device,
        tokens=batches[0].tokens,
        peers_of=peers_of,
    )
    for batch in batches:
        yield {"layers": layers, **_check_batch(executor, batch, seed)}


def _check_batch(executor: DecodeExecutor, batch: Batch, seed: int) -> dict[str, Any]:
    """Check one batch; returns what a line of results says of it."""
    captured = executor.prepare(batch)

    def begin() -> None:
        live = batch.requests
        begin_step(executor, batch, context=_CONTEXT, live=live, seed=seed + live)
        torch.cuda.synchronize()

    begin()
    if (bring := executor.peers(batch)) is not None:
        bring()
    for launch in captured.launches:
        launch.run()
        torch.cuda.synchronize()
    expected = _written(executor, batch.rows)
    different: set[str] = set()
    for _ in range(_REPLAYS):
        begin()
        captured.graph.replay()
        torch.cuda.synchronize()
        if executor.exchanges is not None:
            executor.exchanges.check()
        found = _written(executor, batch.rows)
        different |= {n for n, t in found.items() if not _same_bits(t, expected[n])}
    finite = bool(torch.isfinite(expected["vocabulary"]).all())
    return {
        "rows": batch.rows,
        "tokens": batch.tokens,
        "replays": _REPLAYS,
        "kernels": captured.kernels,
        "outcome": "passed" if finite and not different else "failed",
        "finite": finite,
        "different": sorted(different),
        "distinct_experts": [int(ids.unique().numel()) for ids in expected["experts"]],
    }


def _written(executor: DecodeExecutor, rows: int) -> dict[str, Tensor]:
    buffers, state = executor.buffers.first(rows), executor.state
    found = {
        name: getattr(buffers, name).clone()
        for name in ("prefix", "blocks", "pending", "hidden", "vocabulary", "experts", "shares")
    }
    return found | _state_of(state)


def _state_of(state: DecodeState) -> dict[str, Tensor]:
    parts = {"taps": state.kda_taps, "memory": state.kda_memory, "pages": state.mla_pages}
    return {
        f"{name} {number}": tensor.clone()
        for name, tensors in parts.items()
        for number, tensor in tensors.items()
    }


def _same_bits(one: Tensor, other: Tensor) -> bool:
    bits = (tensor.contiguous().view(torch.uint8) for tensor in (one, other))
    return bool(torch.equal(*bits))

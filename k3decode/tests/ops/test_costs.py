"""Costs against tensors: bytes that are counted are those of what a launch reads and writes."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor

from k3decode.cost import Cost
from k3decode.op import Case
from k3decode.registry import OPS, op_named

Given = dict[str, Any]


def _bytes(*tensors: Tensor | None) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def _launched(name: str, case: Case) -> tuple[Given, Cost]:
    """Arguments of a case's launch, on the CPU, and what the case says that it costs."""
    op = op_named(name)
    signature = inspect.signature(op.launch)
    seen: list[Given] = []

    @wraps(op.launch)
    def look(*positional: Any, **named: Any) -> None:
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        seen.append(dict(bound.arguments))

    trial = case.prepare(look, torch.device("cpu"))
    trial.run()
    return seen[0], trial.cost


def _attn_res(a: Given) -> tuple[int, int]:
    sources = a["blocks"][: a["num_blocks"]]
    return (
        _bytes(a["prefix"], a["pending"], sources, a["direction"], a["output_norm"]),
        _bytes(a["prefix"], a["out"]),
    )


def _embedding(a: Given) -> tuple[int, int]:
    rows = a["table"][a["tokens"].unique().long() - a["first_token"]]
    return _bytes(a["tokens"], rows), _bytes(a["out"])


def _exchange_attn_res(a: Given) -> tuple[int, int]:
    # A slot of the place has as many bytes as a row that all ranks bring together.
    place, sources = a["place"], a["blocks"][: a["num_blocks"]]
    slot = place.words[:1]
    weights = _bytes(a["direction"], a["output_norm"])
    return (
        _bytes(a["prefix"], sources, slot) + weights,
        _bytes(a["prefix"], a["out"], slot) - _bytes(a["own"]),
    )


def _exchange_latent_norm(a: Given) -> tuple[int, int]:
    slots = a["place"].words
    others = _bytes(slots) - _bytes(slots[0])
    return _bytes(a["own"], a["weight"]) + others, _bytes(a["out"]) + others


def _exchange_route(a: Given) -> tuple[int, int]:
    row = _bytes(a["place"].words)
    own = _bytes(a["own_logits"], a["own_row"])
    written = _bytes(a["logits"], a["experts"], a["weights"], a["out"])
    return _bytes(a["bias"]) + row, written + row - own


def _experts(a: Given) -> tuple[int, int]:
    packed, chosen = a["packed"], a["experts"].unique().long()
    weights = (packed.gate_up[chosen], packed.down[chosen])
    return _bytes(a["latent"], a["experts"], a["shares"], *weights), _bytes(a["out"])


def _kda(a: Given) -> tuple[int, int]:
    config, weights = a["config"], a["weights"]
    requests = a["slots"].shape[0]
    taps = a["conv_state"][:requests]
    states = a["memory"][:requests]
    new = a["projection"][:, : config.projection_width]
    read = _bytes(new, *vars(weights).values(), a["slots"], a["accepted"])
    read += _bytes(taps[:, : config.conv_taps - 1], states)
    return read, _bytes(taps, a["out"]) + config.tokens * _bytes(states)


def _mla_combine(a: Given) -> tuple[int, int]:
    # Each row has one partial in a single part, and nothing is left out.
    partials, lift = a["partials"], a["lift"]
    return (
        _bytes(partials.latents, partials.lse, lift.value_up, lift.gate),
        _bytes(a["out"]),
    )


def _mla_decode(a: Given) -> tuple[int, int]:
    cache, partials = a["cache"], a["partials"]
    tokens, page = int(cache.lengths.sum()), cache.pages.shape[1]
    pages = int((-(-cache.lengths // page)).sum())
    rows = cache.pages.flatten(0, 1)[:tokens]
    return (
        _bytes(a["query"], rows, cache.table.flatten()[:pages], cache.lengths),
        _bytes(partials.latents, partials.lse),
    )


def _mla_prepare(a: Given) -> tuple[int, int]:
    used = a["projection"][:, : a["config"].used_width]
    stored = a["pages"].flatten(0, 1)[: used.shape[0]]
    return (
        _bytes(used, a["query_norm"], a["latent_norm"], a["slots"]),
        _bytes(a["query"], stored),
    )


def _all_of(read: tuple[str, ...], written: tuple[str, ...]) -> Callable[[Given], tuple[int, int]]:
    def moved(a: Given) -> tuple[int, int]:
        return _bytes(*(a[name] for name in read)), _bytes(*(a[name] for name in written))

    return moved


# An op's case in which all of the named tensors is read and written, and what of them.
MOVED: dict[str, tuple[str, Callable[[Given], tuple[int, int]]]] = {
    "attn_res": ("add_3_m11", _attn_res),
    "embedding": ("second_shard", _embedding),
    "exchange_attn_res": ("gather_smoke_m3", _exchange_attn_res),
    "exchange_latent_norm": ("smoke_m3", _exchange_latent_norm),
    "exchange_route": ("smoke_m3", _exchange_route),
    "experts": ("m3", _experts),
    "kda": ("q4_one_accepted", _kda),
    "latent_norm": ("smoke_m3", _all_of(("summed", "weight"), ("out",))),
    "mla_combine": ("parts_to_values_one_partial", _mla_combine),
    "mla_decode": ("bf16_many_rows_in_a_part", _mla_decode),
    "mla_prepare": ("e4m3_smoke_m3", _mla_prepare),
    "mla_query": ("e4m3_padded_rows", _all_of(("query", "key_up"), ("absorbed",))),
    "moe_tail": ("padded_rows", _all_of(("routed", "shared"), ("out",))),
    "projection": (
        "padded_rows_two_outputs",
        _all_of(("activation", "weight"), ("out", "fp32_out")),
    ),
    "router": ("smoke_m3", _all_of(("logits", "bias"), ("experts", "weights"))),
    "situ": ("padded_rows", _all_of(("gate_up",), ("out",))),
}


def test_every_op_is_compared() -> None:
    assert set(MOVED) == {op.name for op in OPS}


@pytest.mark.parametrize("name", MOVED)
def test_bytes_are_those_of_the_tensors(name: str) -> None:
    case_name, moved = MOVED[name]
    (case,) = (case for case in op_named(name).cases if case.name == case_name)
    arguments, cost = _launched(name, case)
    read, written = moved(arguments)
    if name == "mla_combine":
        # Places of parts that have no piece are allocated and not read.
        pieces = arguments["out"].shape[0]
        read -= _bytes(arguments["partials"].latents[pieces:], arguments["partials"].lse[pieces:])
    assert (cost.read_bytes, cost.write_bytes) == (read, written)


@pytest.mark.parametrize("name", ["latent_norm", "moe_tail", "router", "projection", "mla_query"])
def test_more_rows_cost_more_by_the_same_amount_each(name: str) -> None:
    costs = {}
    for case in op_named(name).cases:
        rows = case.name.rsplit("_m", 1)[-1]
        if case.group == "rows" and rows in {"2", "4", "6"}:
            costs[int(rows)] = _launched(name, case)[1]
    steps = [
        (costs[more].bytes - costs[less].bytes, costs[more].flops - costs[less].flops)
        for less, more in ((2, 4), (4, 6))
    ]
    assert steps[0] == steps[1]
    assert min(steps[0]) > 0

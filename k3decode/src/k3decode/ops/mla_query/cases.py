"""Cases of the absorption of the key projection.

The projection is a slice of the packed one, so its heads lie further apart than dense; rows may lie
apart too, with NaN between them. With E4M3 the projected columns are judged by the codes that their
rounding to BF16 allows, the others bit by bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import pack_e4m3
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial
from k3decode.ops.mla.case_inputs import PageLayout, trapped_pages
from k3decode.ops.mla_query.config import MlaQueryConfig
from k3decode.ops.mla_query.cost import mla_query_cost
from k3decode.ops.mla_query.launch import config_for
from k3decode.ops.mla_query.reference import absorb
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close, judge_e4m3

__all__ = ["CASES", "replay"]

_DIMS = K3Dims()
_TP8, _TP16 = (_DIMS.shard(ranks).num_attention_heads for ranks in (8, 16))
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Shape:
    rows: int
    heads: int
    cache_format: Literal["bf16", "e4m3"]
    row_padding: int = 0
    query_scale: float = 1.0
    alter: Callable[[Tensor], None] | None = None
    """Overwrites parts of the queries."""

    @property
    def config(self) -> MlaQueryConfig:
        return config_for(_DIMS, self.cache_format)


@dataclass(frozen=True)
class _Inputs:
    """Everything on one device; whole allocations behind the views."""

    query: Tensor
    kv_up: Tensor
    """Per head N key rows, then V value rows, [H, N + V, L]."""
    absorbed: Tensor
    """Rows, and one behind them, [M + 1, H (L + R) + padding]."""

    def copied_to(self, device: torch.device) -> "_Inputs":
        return _Inputs(**{name: t.to(device, copy=True) for name, t in vars(self).items()})


def _inputs(shape: _Shape) -> _Inputs:
    config = shape.config
    generator = torch.Generator().manual_seed(100 * shape.rows + shape.heads)
    bf16 = torch.bfloat16
    query = torch.full((shape.rows, shape.heads * config.head_width + shape.row_padding), torch.nan)
    used = query[:, : shape.heads * config.head_width]
    used[:] = torch.randn(used.shape, generator=generator)
    if shape.alter is not None:
        shape.alter(used)
    rows = config.nope + _DIMS.v_head_dim
    kv_up = torch.randn(shape.heads, rows, config.latent, generator=generator)
    allocated = trapped_pages(
        shape.rows + 1,
        PageLayout(shape.heads, shape.row_padding),
        config.width,
        shape.cache_format,
        _CPU,
    )
    return _Inputs(
        query=query.to(bf16), kv_up=(kv_up / config.nope**0.5).to(bf16), absorbed=allocated
    )


def _query_view(query: Tensor, shape: _Shape) -> Tensor:
    width = shape.config.head_width
    return query[:, : shape.heads * width].unflatten(1, (shape.heads, width))


def _absorbed_view(absorbed: Tensor, shape: _Shape) -> Tensor:
    width = shape.config.width
    return absorbed[: shape.rows, : shape.heads * width].unflatten(1, (shape.heads, width))


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    return _trial(shape, _inputs(shape), launch, device)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument, or is of other widths than K3's.
    """
    query, key_up = call.tensor("query"), call.tensor("key_up")
    shape = _Shape(
        rows=query.shape[0],
        heads=query.shape[1],
        cache_format="bf16" if call.tensor("absorbed").dtype == torch.bfloat16 else "e4m3",
        query_scale=call.number("query_scale"),
    )
    config = shape.config
    if (query.shape[2], *key_up.shape[1:]) != (config.head_width, config.nope, config.latent):
        raise RecordingError(
            f"{call.op}, {call.name}: expected {config.head_width} columns of queries and key rows "
            f"[{config.nope}, {config.latent}], found {list(query.shape)} and {list(key_up.shape)}"
        )
    inputs = _inputs(shape)
    recorded = replace(inputs, query=query.flatten(1), kv_up=key_up)
    return _trial(shape, recorded, launch, device)


def _trial(shape: _Shape, before: _Inputs, launch: Launch, device: torch.device) -> Trial:
    config = shape.config
    used = before.copied_to(device)

    def run() -> None:
        launch(
            _query_view(used.query, shape),
            used.kv_up[:, : config.nope],
            _absorbed_view(used.absorbed, shape),
            config=config,
            query_scale=shape.query_scale,
        )

    return Trial(
        run=run,
        judge=lambda: _judge(shape, before, used),
        cost=mla_query_cost(config, shape.rows, shape.heads),
    )


def _judge(shape: _Shape, before: _Inputs, used: _Inputs) -> tuple[Judgement, ...]:
    config = shape.config
    query = _query_view(before.query, shape)
    key_up = before.kv_up[:, : config.nope]
    exact = absorb(query.double(), key_up.double())[..., : config.latent]
    rounded = absorb(query.float(), key_up.float()).to(torch.bfloat16)[..., : config.latent]
    allocated = used.absorbed.cpu()
    found = _absorbed_view(allocated, shape)
    around = allocated.clone()
    _absorbed_view(around, shape)[:] = before.absorbed[0, 0]
    projected, passed_on = found[..., : config.latent], found[..., config.latent :]
    shared = query[..., config.nope :]
    if shape.cache_format == "bf16":
        judged = judge_close("projected", projected, reference=exact, same_dtype=rounded)
    else:
        shared = pack_e4m3(shared, shape.query_scale)
        judged = judge_e4m3(
            "projected",
            projected,
            reference=exact,
            same_dtype=rounded,
            scale=shape.query_scale,
        )
    return (
        judged,
        judge_bitwise("passed on", passed_on, shared),
        judge_bitwise("around", around, before.absorbed),
    )


def _signed_zeros(query: Tensor) -> None:
    query[0] = 0.0
    query[1] = -0.0


def _denormals(query: Tensor) -> None:
    query[0] = 2.0**-131
    query[1] = 0.0
    query[1, ::7] = -(2.0**-133)


def _infinities(query: Tensor) -> None:
    query[0, 3] = torch.inf
    query[1, -2:] = torch.tensor([torch.inf, -torch.inf])


def _one_column(query: Tensor) -> None:
    # Row r shows row r of the projection: any exchange of columns is visible.
    query[:] = 0.0
    for row in range(query.shape[0]):
        query[row, 37 * row % _DIMS.qk_nope_head_dim] = 1.0


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    cases = []
    formats: tuple[Literal["bf16", "e4m3"], ...] = ("bf16", "e4m3")
    for name in formats:
        shape = partial(_Shape, cache_format=name)
        cases.append(_case(f"{name}_smoke_m3", "smoke", shape(3, _TP16)))
        corner = {
            "one_row": shape(1, _TP8),
            "one_head": shape(2, 1),
            "padded_rows": shape(5, 2, row_padding=48),
            "seventeen_rows": shape(17, 2),
            "signed_zeros": shape(2, 2, alter=_signed_zeros),
            "denormals": shape(2, 2, alter=_denormals),
            "infinities": shape(2, 2, alter=_infinities),
            "one_column": shape(20, 2, alter=_one_column),
        }
        if name == "e4m3":
            corner["saturated"] = shape(3, 2, query_scale=2.0**-9)
            corner["scaled"] = shape(3, 2, query_scale=0.0371)
        cases += [_case(f"{name}_{key}", "corner", one) for key, one in corner.items()]
        cases += [
            _case(f"{name}_tp{ranks}_m{rows}", "production", shape(rows, heads))
            for ranks, heads in ((8, _TP8), (16, _TP16))
            for rows in SERVED_ROWS
        ]
        cases += [
            _case(f"{name}_tp1_m{rows}", "production", shape(rows, _DIMS.num_attention_heads))
            for rows in (1, 8, 64)
        ]
    cases += [
        _case(f"rows_m{rows}", "rows", _Shape(rows, 2, formats[rows % 2]))
        for rows in range(1, MAX_ROWS + 1)
    ]
    return tuple(cases)


CASES = _cases()

"""Cases of the exchange in front of the experts.

Logits and columns of 8 and 16 ranks whose peers bring their words early, late and in any order, and
columns that look as if they had not arrived. Ranks of experts are judged as the router's are.
Columns between padded rows hold NaN. Not here: NaN logits, which no caller may pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.reference import owner_columns, sendable
from k3decode.comm.simulated import Brought, SimulatedPeers
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.exchange_route.config import ExchangeRouteConfig
from k3decode.ops.exchange_route.cost import exchange_route_cost
from k3decode.ops.exchange_route.launch import config_for
from k3decode.ops.router.cases import router_trial
from k3decode.tolerance import judge_bitwise

__all__ = ["CASES"]

_DIMS = K3Dims()
_EIGHT, _SIXTEEN = (config_for(_DIMS, n, _DIMS.shared_intermediate_size) for n in (8, 16))


@dataclass(frozen=True)
class _Shape:
    rows: int
    config: ExchangeRouteConfig = _EIGHT
    rank: int = 3
    row_padding: int = 0
    alter: Callable[[Tensor, Tensor], None] | None = None
    """Overwrites parts of logits [M, E] and columns [M, W] of all ranks."""


@dataclass(frozen=True)
class _Rows:
    """What all ranks have together, on the CPU."""

    logits: Tensor
    columns: Tensor
    bias: Tensor

    def columns_of(self, config: ExchangeRouteConfig, rank: int) -> list[tuple[int, Tensor]]:
        """First column and share of each part."""
        found, begin = [], 0
        for width in config.parts:
            mine = owner_columns(width, rank, config.ranks)
            found.append((begin + mine.start, self.columns[:, begin:][:, mine]))
            begin += width
        return found

    def logits_of(self, config: ExchangeRouteConfig, rank: int) -> Tensor:
        """A rank's logits."""
        return self.logits[:, owner_columns(config.num_experts, rank, config.ranks)]


def _rows(shape: _Shape) -> _Rows:
    c, rows = shape.config, shape.rows
    generator = torch.Generator().manual_seed(rows)
    found = _Rows(
        logits=2 * torch.randn(rows, c.num_experts, generator=generator),
        columns=torch.randn(rows, c.width, generator=generator).bfloat16(),
        bias=0.2 * torch.randn(c.num_experts, generator=generator),
    )
    if shape.alter is not None:
        shape.alter(found.logits, found.columns)
    return found


def _peers(shape: _Shape, rows: _Rows) -> SimulatedPeers:
    c = shape.config
    brought = []
    for rank in range(c.ranks):
        logits = sendable(rows.logits_of(c, rank))
        brought.append(Brought(rank=rank, slot=0, first=rank * c.logit_share, words=logits))
        for first, share in rows.columns_of(c, rank):
            place = c.num_experts + first // 2
            brought.append(Brought(rank=rank, slot=0, first=place, words=sendable(share)))
    return SimulatedPeers(brought, slots=1, columns=2 * c.row_words, rank=shape.rank, ranks=c.ranks)


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    c, count, padding, fp32 = shape.config, shape.rows, shape.row_padding, torch.float32
    rows = _rows(shape)
    peers = _peers(shape, rows)
    place, bf16 = peers.prepared(device), torch.bfloat16
    mine = torch.cat([share for _, share in rows.columns_of(c, shape.rank)], dim=1)
    own_row = poisoned(count + 1, c.width // c.ranks + padding, dtype=bf16, device=device)
    own_row[:count, : mine.shape[1]] = mine.to(device)
    own_logits = poisoned(count + 1, c.logit_share + padding, dtype=fp32, device=device)
    own_logits[:count, : c.logit_share] = rows.logits_of(c, shape.rank).to(device)
    logits = poisoned(count + 1, c.num_experts + padding, dtype=fp32, device=device)
    out = poisoned(count + 1, c.width + padding, dtype=bf16, device=device)
    around = (logits.clone(), out.clone())

    def exchange_instead(_logits: Tensor, bias: Tensor, *outputs: Tensor, **_: Any) -> None:
        peers.run(
            lambda: launch(
                own_logits[:count, : c.logit_share],
                own_row[:count, : mine.shape[1]],
                bias,
                logits[:count, : c.num_experts],
                *outputs,
                out[:count, : c.width],
                place,
                config=c,
            )
        )

    trial = router_trial(c, rows.logits, rows.bias, exchange_instead, device)
    around[0][:count, : c.num_experts] = rows.logits.to(device)
    around[1][:count, : c.width] = sendable(rows.columns).view(bf16).to(device)
    return replace(
        trial,
        judge=lambda: (
            *trial.judge(),
            judge_bitwise("logits", logits, around[0]),
            judge_bitwise("out", out, around[1]),
            *peers.judge(),
        ),
        cost=exchange_route_cost(c, count),
    )


def _as_if_missing(_logits: Tensor, columns: Tensor) -> None:
    """Pairs of NaN of all ones in both parts, in shares of several ranks."""
    bits = columns.view(torch.int16)
    bits[0, ::64] = -1
    bits[0, 1::64] = -1
    bits[1, 448 * 3 : 448 * 3 + 8] = -1
    bits[2, 5] = -1


def _zeros_and_denormals(logits: Tensor, columns: Tensor) -> None:
    logits[0] = -0.0
    logits[0, ::3] = 0.0
    logits[1] = 2.0**-140
    columns[0] = -0.0
    columns[1] = 2.0**-130


def _infinities(logits: Tensor, columns: Tensor) -> None:
    logits[0] = -torch.inf
    logits[1, 100:110] = torch.inf
    columns[0, 3] = torch.inf


def _ties_across_ranks(logits: Tensor, _columns: Tensor) -> None:
    for expert in (31, 111, 112, 223, 224, 895, 1):
        logits[:, expert] = 9.0


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_of_16_m2", "smoke", _Shape(2, _SIXTEEN, rank=15)),
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("one_row", "corner", _Shape(1, rank=0)),
    _case("padded_rows", "corner", _Shape(5, rank=7, row_padding=24)),
    _case("as_if_missing", "corner", _Shape(3, alter=_as_if_missing)),
    _case("zeros_and_denormals", "corner", _Shape(3, alter=_zeros_and_denormals)),
    _case("infinities", "corner", _Shape(3, alter=_infinities)),
    _case("ties_across_ranks", "corner", _Shape(2, alter=_ties_across_ranks)),
    *(
        _case(f"of_{c.ranks}_m{rows}", "production", _Shape(rows, c))
        for c in (_EIGHT, _SIXTEEN)
        for rows in SERVED_ROWS
    ),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

"""Cases of the exchange before AttnRes.

Partial sums and gathered columns of 8 and 16 ranks, seen by the first, the last and one between,
whose peers bring their words early, late and in any order. What is said of AttnRes' own cases holds
here too. Not here: a rank that never comes, which `comm/verify.py` has.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.reference import gathered, owner_columns, partial_sum, sendable
from k3decode.comm.simulated import Brought, SimulatedPeers
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.attn_res.cases import CaseShape, case_inputs
from k3decode.ops.attn_res.trial import attn_res_trial
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig
from k3decode.ops.exchange_attn_res.cost import exchange_attn_res_cost
from k3decode.ops.exchange_attn_res.launch import variants

__all__ = ["CASES"]

_VARIANTS = variants(K3Dims())
_SPARE_ROWS = 2


@dataclass(frozen=True)
class _Shape:
    rows: int
    config: ExchangeAttnResConfig
    rank: int = 3
    row_padding: int = 0
    alter: Callable[[Tensor, Tensor], None] | None = None
    """Overwrites parts of what ranks bring, [ranks, M, W], and of the prefix."""


def _brought(shape: _Shape) -> Tensor:
    """What each rank brings, BF16 [ranks, M, W]."""
    c = shape.config
    width = c.hidden_size // c.ranks if c.gathers else c.hidden_size
    generator = torch.Generator().manual_seed(100 * shape.rows + c.ranks)
    values = torch.randn(c.ranks, shape.rows, width, generator=generator)
    # Ranks of different size, so that a wrong slot cannot hide.
    sizes = torch.exp(torch.randn(c.ranks, 1, 1, generator=generator))
    return (values * sizes).to(torch.bfloat16)


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    c, rows, rank = shape.config, shape.rows, shape.rank
    inputs = case_inputs(CaseShape(rows, c, row_padding=shape.row_padding))
    live = (slice(0, rows), slice(0, c.hidden_size))
    shares = _brought(shape)
    if shape.alter is not None:
        shape.alter(shares, inputs.prefix[live])
    combined = gathered(list(shares)) if c.gathers else partial_sum(list(shares))
    inputs.pending[live] = combined.to(torch.bfloat16)
    words = c.hidden_size // 2
    peers = SimulatedPeers(
        [
            Brought(
                rank=r,
                slot=0 if c.gathers else r,
                first=owner_columns(words, r, c.ranks).start if c.gathers else 0,
                words=sendable(share),
            )
            for r, share in enumerate(shares)
        ],
        slots=1 if c.gathers else c.ranks,
        columns=c.hidden_size,
        rank=rank,
        ranks=c.ranks,
    )
    place = peers.prepared(device)
    width = int(shares.shape[-1])
    bf16 = torch.bfloat16
    own = poisoned(rows + _SPARE_ROWS, width + shape.row_padding, dtype=bf16, device=device)
    own[:rows, :width] = shares[rank].to(device)
    before = own.clone()

    def exchange_instead(prefix: Tensor, _pending: Tensor, *tensors: Tensor, **named: Any) -> None:
        peers.run(lambda: launch(prefix, own[:rows, :width], *tensors, place, **named))

    trial = attn_res_trial(inputs, exchange_instead, device)
    return replace(
        trial,
        judge=lambda: (*trial.judge(), *peers.judge(), *_same(own, before)),
        cost=exchange_attn_res_cost(c, rows),
    )


def _same(own: Tensor, before: Tensor) -> tuple[Any, ...]:
    from k3decode.tolerance import judge_bitwise  # noqa: PLC0415

    return (judge_bitwise("own", own, before),)


def _signed_zeros(shares: Tensor, prefix: Tensor) -> None:
    shares[:, 0] = -0.0
    shares[:, 1, ::2] = -0.0
    prefix[0] = -0.0


def _denormals(shares: Tensor, prefix: Tensor) -> None:
    shares[:, 0] = 2.0**-133 * (1 + torch.arange(shares.shape[-1]) % 5)
    prefix[0] = 2.0**-133


def _infinities(shares: Tensor, prefix: Tensor) -> None:
    shares[0, 0, 3] = torch.inf
    shares[-1, 1, 5] = -torch.inf
    prefix[2, 7] = torch.inf


def _cancelling(shares: Tensor, _prefix: Tensor) -> None:
    # In another order than that of ranks the small ones would be lost.
    shares[0], shares[1] = 2.0**20, -(2.0**20)


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    sums, gathers = _VARIANTS["sum_of_8_add_2"], _VARIANTS["gather_of_8_add_2"]
    more_sums, more = _VARIANTS["sum_of_16_add_8"], _VARIANTS["gather_of_16_add_8"]
    cases = [
        _case("gather_smoke_m3", "smoke", _Shape(3, gathers)),
        _case("sum_smoke_m3", "smoke", _Shape(3, sums)),
    ]
    cases += [
        _case(f"{name}_m5", "corner", _Shape(5, config, rank=i % config.ranks))
        for i, (name, config) in enumerate(_VARIANTS.items())
        if config.blocks in {1, 3}
    ]
    cases += [
        _case("one_row", "corner", _Shape(1, sums, rank=0)),
        _case("sum_padded_rows", "corner", _Shape(5, sums, rank=7, row_padding=24)),
        _case("gather_padded_rows", "corner", _Shape(5, gathers, rank=7, row_padding=24)),
        _case("sum_signed_zeros", "corner", _Shape(3, sums, alter=_signed_zeros)),
        _case("gather_signed_zeros", "corner", _Shape(3, gathers, alter=_signed_zeros)),
        _case("denormals", "corner", _Shape(3, sums, alter=_denormals)),
        _case("infinities", "corner", _Shape(4, sums, alter=_infinities)),
        _case("cancelling", "corner", _Shape(3, sums, alter=_cancelling)),
    ]
    production = {"sum_8": sums, "gather_8": gathers, "sum_16": more_sums, "gather_16": more}
    cases += [
        _case(f"{name}_m{rows}", "production", _Shape(rows, config))
        for name, config in production.items()
        for rows in SERVED_ROWS
    ]
    cases += [
        _case(f"rows_m{rows}", "rows", _Shape(rows, sums if rows % 2 else gathers))
        for rows in range(1, MAX_ROWS + 1)
    ]
    return tuple(cases)


CASES = _cases()

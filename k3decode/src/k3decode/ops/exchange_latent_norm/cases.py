"""Cases of the exchange before the latent norm.

Partial sums of 8 and 16 ranks whose peers bring their words early, late and in any order, and words
that look as if they had not arrived. Written beside and in place. Between padded rows stands NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.comm.reference import partial_sum, sendable
from k3decode.comm.simulated import Brought, SimulatedPeers
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig
from k3decode.ops.exchange_latent_norm.cost import exchange_latent_norm_cost
from k3decode.ops.exchange_latent_norm.launch import config_for
from k3decode.ops.rms_norm.reference import rms_norm
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES"]

_EIGHT, _SIXTEEN = (config_for(K3Dims(), ranks) for ranks in (8, 16))


@dataclass(frozen=True)
class _Shape:
    rows: int
    config: ExchangeLatentNormConfig = _EIGHT
    rank: int = 3
    row_padding: int = 0
    in_place: bool = False
    alter: Callable[[Tensor], None] | None = None
    """Overwrites parts of what ranks bring, [ranks, M, L]."""


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    c, rows, width = shape.config, shape.rows, shape.config.width
    generator = torch.Generator().manual_seed(100 * rows + c.ranks)
    shares = 2 * torch.randn(c.ranks, rows, width, generator=generator)
    # Ranks of different size, so that a wrong slot cannot hide.
    shares = (shares * torch.exp(torch.randn(c.ranks, 1, 1, generator=generator))).bfloat16()
    if shape.alter is not None:
        shape.alter(shares)
    weight = (1 + torch.randn(width, generator=generator) / 4).bfloat16()
    peers = SimulatedPeers(
        [Brought(rank=r, slot=r, first=0, words=sendable(one)) for r, one in enumerate(shares)],
        slots=c.ranks,
        columns=width,
        rank=shape.rank,
        ranks=c.ranks,
    )
    place, bf16 = peers.prepared(device), torch.bfloat16
    source = poisoned(rows + 1, width + shape.row_padding, dtype=bf16, device=device)
    source[:rows, :width] = shares[shape.rank].to(device)
    target = source if shape.in_place else torch.full_like(source, torch.nan)
    before, weight_on_device = target.clone(), weight.to(device)

    def run() -> None:
        own, out = source[:rows, :width], target[:rows, :width]
        peers.run(lambda: launch(own, weight_on_device, out, place, config=c))

    def judge() -> tuple[Judgement, ...]:
        around = target.clone()
        around[:rows, :width] = before[:rows, :width]
        total = partial_sum(list(shares))
        same_dtype = rms_norm(total, weight.float(), c.eps).bfloat16()
        return (
            judge_close(
                "out",
                target[:rows, :width],
                reference=rms_norm(total.double(), weight.double(), c.eps),
                same_dtype=same_dtype,
            ),
            judge_bitwise("around out", around, before),
            *peers.judge(),
        )

    return Trial(run=run, judge=judge, cost=exchange_latent_norm_cost(c, rows))


def _signed_zeros(shares: Tensor) -> None:
    shares[:, 0] = -0.0
    shares[:, 1, ::2] = -0.0


def _small_and_large(shares: Tensor) -> None:
    shares[:, 0] *= 2.0**-20
    shares[:, 1] *= 2.0**40
    shares[:, 2] = 2.0**-130


def _unbounded(shares: Tensor) -> None:
    shares[0, 0, 3] = torch.nan
    shares[3, 1, 5] = torch.inf


def _as_if_missing(shares: Tensor) -> None:
    """Pairs of NaN of all ones: from this rank, and from another."""
    bits = shares.view(torch.int16)
    bits[3, 0, 8:16] = -1
    bits[5, 1, 2:4] = -1
    # One of a pair is no such word.
    bits[3, 2, 4] = -1


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("smoke_of_16_m2", "smoke", _Shape(2, _SIXTEEN, rank=15)),
    _case("one_row", "corner", _Shape(1, rank=0)),
    _case("padded_rows", "corner", _Shape(5, rank=7, row_padding=24)),
    _case("in_place", "corner", _Shape(4, row_padding=8, in_place=True)),
    _case("signed_zeros", "corner", _Shape(3, alter=_signed_zeros)),
    _case("small_and_large", "corner", _Shape(4, alter=_small_and_large)),
    _case("unbounded", "corner", _Shape(3, alter=_unbounded)),
    _case("as_if_missing", "corner", _Shape(4, alter=_as_if_missing)),
    *(
        _case(f"of_{c.ranks}_m{rows}", "production", _Shape(rows, c))
        for c in (_EIGHT, _SIXTEEN)
        for rows in SERVED_ROWS
    ),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

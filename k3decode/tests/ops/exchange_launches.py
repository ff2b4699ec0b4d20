"""Plain-torch stand-ins with the launches of exchanges, as in torch_launches.

What this rank brings goes into the memory of all others; what they have brought lies there already.
"""

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.comm.reference import leave, owner_columns, partial_sum, sendable, take
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig
from k3decode.ops.exchange_route.config import ExchangeRouteConfig

from .moe_launches import normalise_latent
from .torch_launches import attn_res, route_rows

_ALL = slice(None)


def summed(own: Tensor, place: Place) -> Tensor:
    """FP32 sum of all ranks."""
    mine = sendable(own)
    leave(place, mine, slot=place.rank, columns=_ALL)
    words = [
        mine if rank == place.rank else take(place, slot=rank, columns=_ALL)
        for rank in range(place.ranks)
    ]
    return partial_sum([one.contiguous().view(torch.bfloat16) for one in words])


def gathered(own: Tensor, place: Place, first: int, width: int) -> Tensor:
    """Words of all ranks, of which this one has its share, from a word of a row on."""
    found = []
    for rank in range(place.ranks):
        share = owner_columns(width, rank, place.ranks)
        columns = slice(first + share.start, first + share.stop)
        if rank == place.rank:
            leave(place, sendable(own), slot=0, columns=columns)
            found.append(sendable(own))
        else:
            found.append(take(place, slot=0, columns=columns))
    return torch.cat(found, dim=1)


def exchange_attn_res(  # noqa: PLR0917
    prefix: Tensor,
    own: Tensor,
    blocks: Tensor,
    direction: Tensor,
    output_norm: Tensor | None,
    out: Tensor,
    place: Place,
    *,
    num_blocks: int,
    write_block: int | None,
    reset: bool,
    eps: float,
) -> None:
    if place.words.shape[0] == 1:
        pending = gathered(own, place, 0, place.words.shape[-1]).view(torch.bfloat16)
    else:
        pending = summed(own, place).bfloat16()
    attn_res(
        prefix,
        pending,
        blocks,
        direction,
        output_norm,
        out,
        num_blocks=num_blocks,
        write_block=write_block,
        reset=reset,
        eps=eps,
    )


def exchange_latent_norm(
    own: Tensor, weight: Tensor, out: Tensor, place: Place, *, config: ExchangeLatentNormConfig
) -> None:
    normalise_latent(summed(own, place), weight, out, config=config)


def exchange_route(  # noqa: PLR0917
    own_logits: Tensor,
    own_row: Tensor,
    bias: Tensor,
    logits: Tensor,
    experts: Tensor,
    weights: Tensor,
    out: Tensor,
    place: Place,
    *,
    config: ExchangeRouteConfig,
) -> None:
    logits.copy_(gathered(own_logits, place, 0, config.num_experts).view(torch.float32))
    first, own_begin, rows = config.num_experts, 0, []
    for width in config.parts:
        share = width // config.ranks
        own = own_row[:, own_begin : own_begin + share]
        rows.append(gathered(own, place, first, width // 2).view(torch.bfloat16))
        first, own_begin = first + width // 2, own_begin + share
    out.copy_(torch.cat(rows, dim=1))
    route_rows(logits, bias, experts, weights, scaling_factor=config.scaling_factor)

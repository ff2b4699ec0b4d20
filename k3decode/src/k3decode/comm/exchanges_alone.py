"""The exchanges of a step, each alone, with words of ranks that are simulated on one device."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from k3decode.comm.mailbox import Mailbox, Place
from k3decode.comm.reference import owner_columns, sendable
from k3decode.comm.repeated import Payload, RepeatedExchange
from k3decode.dims import K3Dims
from k3decode.ops.exchange_attn_res.launch import exchange_attn_res
from k3decode.ops.exchange_latent_norm.launch import config_for as norm_config
from k3decode.ops.exchange_latent_norm.launch import exchange_latent_norm
from k3decode.ops.exchange_route.launch import config_for as route_config
from k3decode.ops.exchange_route.launch import exchange_route

__all__ = ["EXCHANGES"]

_RANK = 2
_NUMBER = 7
_PAYLOADS = 3
_BLOCKS = 2
# Two of BF16: NaN, as two of them side by side are a word that has not arrived.
_SENTINEL = -1


def _place(slots: int, rows: int, columns: int, ranks: int, device: torch.device) -> Place:
    error = torch.zeros(1, dtype=torch.int64, device=device)
    boxes = [
        Mailbox.allocate(places=1, slots=slots, rows=rows, columns=columns, rank=rank, error=error)
        for rank in range(ranks)
    ]
    return boxes[_RANK].connected([box.words for box in boxes]).place(_NUMBER, rows)


def _shares(ranks: int, rows: int, width: int, seed: int) -> Tensor:
    """What ranks bring, BF16 [ranks, M, W]; of an odd seed some looks as if it were missing."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.randn(ranks, rows, width, generator=generator).bfloat16()
    if seed % 2:
        bits = shares.view(torch.int16)
        bits[_RANK, 0, :16] = _SENTINEL
        bits[(_RANK + 1) % ranks, 0, 2:6] = _SENTINEL
    return shares


def _owners(place: Place, parts: tuple[int, ...]) -> Tensor:
    """By word: of a sum the slot's rank, of a gather whoever has those words of each part."""
    if place.words.shape[0] > 1:
        ranks = torch.arange(place.ranks, dtype=torch.int32)[:, None, None]
        return ranks.expand(place.words.shape).contiguous().to(place.words.device)
    columns = [torch.arange(n, dtype=torch.int32) * place.ranks // n for n in parts]
    row = torch.cat(columns).to(torch.int32)
    return row.expand(place.words.shape).contiguous().to(place.words.device)


def _latent_sum(dims: K3Dims, ranks: int, rows: int, device: torch.device) -> RepeatedExchange:
    """Of expert outputs, before the latent norm."""
    width, config = dims.latent_size, norm_config(dims, ranks)
    place = _place(ranks, rows, width, ranks, device)
    weight = torch.ones(width, dtype=torch.bfloat16, device=device)

    def payload(seed: int) -> Payload:
        shares = _shares(ranks, rows, width, seed)
        own, out = shares[_RANK].to(device), torch.empty_like(shares[_RANK], device=device)

        def launch(to: Place) -> None:
            exchange_latent_norm(own, weight, out, to, config=config)

        return Payload(sendable(shares).to(device), launch, (out, _sent(place)))

    payloads = tuple(payload(seed) for seed in range(_PAYLOADS))
    return RepeatedExchange("latent sum", place, _owners(place, ()), payloads)


def _front(dims: K3Dims, ranks: int, rows: int, device: torch.device) -> RepeatedExchange:
    """Of logits and columns, in front of the experts."""
    config = route_config(dims, ranks, dims.shared_intermediate_size)
    count, parts = config.num_experts, (config.num_experts, *(n // 2 for n in config.parts))
    place = _place(1, rows, 2 * config.row_words, ranks, device)
    bias = torch.zeros(count, device=device)

    def payload(seed: int) -> Payload:
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(rows, count, generator=generator)
        shares = [_shares(ranks, rows, n // ranks, seed) for n in config.parts]
        words = [sendable(logits), *(sendable(torch.cat(list(one), dim=1)) for one in shares)]
        own_logits = logits[:, owner_columns(count, _RANK, ranks)].contiguous().to(device)
        own_row = torch.cat([one[_RANK] for one in shares], dim=1).to(device)
        outputs = (
            torch.empty(rows, count, device=device),
            torch.empty(rows, config.experts_per_token, dtype=torch.int32, device=device),
            torch.empty(rows, config.experts_per_token, device=device),
            torch.empty(rows, config.width, dtype=torch.bfloat16, device=device),
        )

        def launch(to: Place) -> None:
            exchange_route(own_logits, own_row, bias, *outputs, to, config=config)

        brought = torch.cat(words, dim=1)[None].to(device)
        return Payload(brought, launch, (*outputs, _sent(place)))

    payloads = tuple(payload(seed) for seed in range(_PAYLOADS))
    return RepeatedExchange("front gather", place, _owners(place, parts), payloads)


def _before_attn_res(
    dims: K3Dims, ranks: int, rows: int, device: torch.device, *, gathers: bool
) -> RepeatedExchange:
    """Of an attention part's outputs, summed, or of an MoE part's, gathered."""
    width = dims.hidden_size
    place = _place(1 if gathers else ranks, rows, width, ranks, device)
    generator = torch.Generator().manual_seed(ranks)
    start, direction = torch.randn(rows, width, generator=generator), torch.ones(width)
    blocks = torch.randn(_BLOCKS, rows, width, generator=generator).bfloat16().to(device)
    before, norm = start.bfloat16().to(device), torch.ones(width).bfloat16().to(device)

    def payload(seed: int) -> Payload:
        shares = _shares(ranks, rows, width // ranks if gathers else width, seed)
        words = sendable(torch.cat(list(shares), dim=1))[None] if gathers else sendable(shares)
        own, prefix, out = shares[_RANK].to(device), before.clone(), torch.empty_like(before)
        directed = direction.to(device)

        def launch(to: Place) -> None:
            prefix.copy_(before)
            exchange_attn_res(
                prefix,
                own,
                blocks,
                directed,
                norm,
                out,
                to,
                num_blocks=_BLOCKS,
                write_block=None,
                reset=False,
                eps=dims.rms_norm_eps,
            )

        return Payload(words.to(device), launch, (out, prefix, _sent(place)))

    payloads = tuple(payload(seed) for seed in range(_PAYLOADS))
    name = "gather before AttnRes" if gathers else "sum before AttnRes"
    return RepeatedExchange(name, place, _owners(place, (width // 2,)), payloads)


def _sent(place: Place) -> Tensor:
    """Memory of one peer, which nobody but this rank writes here."""
    return place.outgoing[(_RANK + 1) % place.ranks]


EXCHANGES: Mapping[str, Callable[[K3Dims, int, int, torch.device], RepeatedExchange]] = {
    "latent_sum": _latent_sum,
    "front_gather": _front,
    "attention_sum": partial(_before_attn_res, gathers=False),
    "output_gather": partial(_before_attn_res, gathers=True),
}
"""What makes each of them: numbers of the model, ranks, rows and a device."""

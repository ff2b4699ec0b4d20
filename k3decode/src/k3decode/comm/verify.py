"""`python -m k3decode.comm.verify`: exchanges many times over, and one whose rank never comes.

On a GPU, with ranks simulated on it. Each exchange is launched again and again while its peers
bring their words in any order, after random pauses; every launch must give the bits of the first.
Then one rank stays away: the launch must end, its rows must be NaN, and the error must name rank
and row; after a reset it must give the right bits again. One line of JSON each; exit code 1 when
one fails.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from k3decode.circumstances import circumstances, typed_command
from k3decode.comm.mailbox import ExchangeFailedError, Place, decode_error
from k3decode.comm.reference import owner_columns, sendable
from k3decode.comm.simulated import Brought, SimulatedPeers
from k3decode.dims import K3Dims
from k3decode.needed_gpu import require_gpu
from k3decode.ops.exchange_latent_norm.launch import config_for as norm_config
from k3decode.ops.exchange_latent_norm.launch import exchange_latent_norm
from k3decode.ops.exchange_route.launch import config_for as route_config
from k3decode.ops.exchange_route.launch import exchange_route

__all__ = ["main"]

SCHEMA = "k3decode.comm_verify/1"
_RANK = 2
_ABSENT = 5
# About 10 ms: longer than all pauses together.
_DEADLINE_CYCLES = 20_000_000


@dataclass(frozen=True)
class _Exchange:
    """One exchange with all that it takes."""

    name: str
    peers: SimulatedPeers
    place: Place
    launch: Callable[[], None]
    outputs: tuple[Tensor, ...]

    def run(self) -> list[Tensor]:
        """Launch among the peers; returns what was written."""
        self.peers.run(self.launch)
        torch.cuda.synchronize()
        return [one.clone() for one in self.outputs]


def _sum(dims: K3Dims, ranks: int, rows: int, device: torch.device) -> _Exchange:
    """Of expert outputs, before the latent norm."""
    config, width = norm_config(dims, ranks), dims.latent_size
    shares = torch.randn(ranks, rows, width).bfloat16()
    peers = SimulatedPeers(
        [Brought(rank=r, slot=r, first=0, words=sendable(one)) for r, one in enumerate(shares)],
        slots=ranks,
        columns=width,
        rank=_RANK,
        ranks=ranks,
        deadline=_DEADLINE_CYCLES,
    )
    place, own = peers.prepared(device), shares[_RANK].to(device)
    weight = torch.ones(width, dtype=torch.bfloat16, device=device)
    out = torch.empty_like(own)

    def launch() -> None:
        exchange_latent_norm(own, weight, out, place, config=config)

    return _Exchange("sum", peers, place, launch, (out,))


def _gather(dims: K3Dims, ranks: int, rows: int, device: torch.device) -> _Exchange:
    """Of logits and columns, in front of the experts."""
    config = route_config(dims, ranks, dims.shared_intermediate_size)
    logits, parts = torch.randn(rows, config.num_experts), []
    brought = []
    for rank in range(ranks):
        mine, begin = owner_columns(config.num_experts, rank, ranks), config.num_experts
        words = sendable(logits[:, mine])
        brought.append(Brought(rank=rank, slot=0, first=mine.start, words=words))
        for width in config.parts:
            share = torch.randn(rows, width // ranks).bfloat16()
            first = begin + owner_columns(width // 2, rank, ranks).start
            brought.append(Brought(rank=rank, slot=0, first=first, words=sendable(share)))
            begin += width // 2
            parts += [share] if rank == _RANK else []
    peers = SimulatedPeers(
        brought,
        slots=1,
        columns=2 * config.row_words,
        rank=_RANK,
        ranks=ranks,
        deadline=_DEADLINE_CYCLES,
    )
    place, top_k = peers.prepared(device), config.experts_per_token
    own_logits = logits[:, owner_columns(config.num_experts, _RANK, ranks)].contiguous().to(device)
    own_row = torch.cat(parts, dim=1).to(device)
    bias = torch.zeros(config.num_experts, device=device)
    all_logits = torch.empty(rows, config.num_experts, device=device)
    experts = torch.empty(rows, top_k, dtype=torch.int32, device=device)
    weights = torch.empty(rows, top_k, device=device)
    out = torch.empty(rows, config.width, dtype=torch.bfloat16, device=device)
    outputs = (all_logits, experts, weights, out)

    def launch() -> None:
        exchange_route(own_logits, own_row, bias, *outputs, place, config=config)

    return _Exchange("gather", peers, place, launch, outputs)


def _repeated(exchange: _Exchange, times: int) -> dict[str, Any]:
    """Launch many times; counts launches that gave other bits than the first."""
    first = exchange.run()
    wrong = 0
    for _ in range(times):
        found = exchange.run()
        wrong += not all(torch.equal(one, two) for one, two in zip(found, first, strict=True))
    free = bool((exchange.place.words == -1).all())
    failed = wrong > 0 or not free or int(exchange.place.error) != 0
    return {"exchanges": times, "different": wrong, "outcome": "failed" if failed else "passed"}


def _absent(exchange: _Exchange) -> dict[str, Any]:
    """Let one rank stay away, then reset and let all come."""
    expected = exchange.run()
    exchange.peers.silent = _ABSENT
    found, sentence = exchange.run(), ""
    try:
        decode_error(exchange.place.error)
    except ExchangeFailedError as error:
        sentence = str(error)
    exchange.peers.silent = None
    exchange.place.words.fill_(-1)
    exchange.place.error.zero_()
    again = exchange.run()
    named = f"of rank {_ABSENT} before" in sentence and f" {exchange.place.number}:" in sentence
    shown = bool(found[-1].isnan().any())
    right = all(torch.equal(one, two) for one, two in zip(again, expected, strict=True))
    return {
        "sentence": sentence,
        "right_after_reset": right,
        "outcome": "passed" if named and shown and right else "failed",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.comm.verify", description=__doc__)
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--times", type=int, default=100_000, help="launches of each exchange")
    options = parser.parse_args(arguments)
    require_gpu(parser)
    facts = circumstances(options.commit, typed_command("k3decode.comm.verify", arguments))
    device, failed = torch.device("cuda"), 0
    for make in (_sum, _gather):
        exchange = make(K3Dims(), options.ranks, options.rows, device)
        for name, record in (
            ("repeated", _repeated(exchange, options.times)),
            ("absent rank", _absent(exchange)),
        ):
            failed += record["outcome"] != "passed"
            line = {"schema": SCHEMA, "check": name, "exchange": exchange.name}
            shape = {"ranks": options.ranks, "rows": options.rows}
            print(json.dumps({**line, **shape, **record, **facts}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m k3decode.comm.verify`: exchanges many times over, and one whose rank never comes.

On a GPU, with ranks simulated on it. Each exchange is launched again and again while its peers
bring their words late, each by a time of its own; every launch must give the bits of the first of
the same words, some of which look like words that have not arrived. Then one rank stays away: the
launch must end, its rows must be NaN, and the error must name exchange and rank; after a reset it
must give the right bits again. One line of JSON each; exit code 1 when one fails.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from k3decode.circumstances import circumstances, typed_command
from k3decode.comm.exchanges_alone import EXCHANGES
from k3decode.comm.mailbox import ExchangeFailedError, decode_error
from k3decode.comm.repeated import RepeatedExchange, different_outputs
from k3decode.dims import K3Dims
from k3decode.needed_gpu import require_gpu
from k3decode.replay_times import event_time_us

__all__ = ["absent_rank", "main", "repeated"]

SCHEMA = "k3decode.comm_verify/2"
_ABSENT = 5
# About 10 ms, and what the launch may take at most with it.
_DEADLINE_CYCLES = 20_000_000
_MOST_MS = 100.0


def repeated(exchange: RepeatedExchange, times: int, seed: int) -> dict[str, Any]:
    """Launch many times; counts launches that gave other bits than the first of their words."""
    expected = [exchange.once(payload) for payload in exchange.payloads]
    wrong, done = different_outputs(exchange, expected, times=times, seed=seed)
    passed = wrong == 0 and exchange.free()
    return {"exchanges": done, "different": wrong, "outcome": "passed" if passed else "failed"}


def absent_rank(exchange: RepeatedExchange) -> dict[str, Any]:
    """Let one rank stay away, then reset and let all come."""
    payload, place = exchange.payloads[0], exchange.place
    expected = exchange.once(payload)
    found: list[Tensor] = []
    hasty = replace(place, deadline=_DEADLINE_CYCLES)

    def miss() -> None:
        found[:] = exchange.once(payload, absent=_ABSENT, place=hasty)

    milliseconds = 0.0
    if place.words.device.type == "cuda":
        milliseconds = event_time_us(miss) / 1e3
    else:
        miss()
    sentence = ""
    try:
        decode_error(place.error)
    except ExchangeFailedError as error:
        sentence = str(error)
    place.words.fill_(-1)
    place.error.zero_()
    again = exchange.once(payload)
    named = f"of rank {_ABSENT} before" in sentence and f" {place.number}:" in sentence
    shown = bool(found[0].isnan().any())
    in_time = milliseconds < _MOST_MS
    right = all(torch.equal(one, two) for one, two in zip(again, expected, strict=True))
    passed = named and shown and in_time and right and exchange.free()
    return {
        "sentence": sentence,
        "milliseconds": milliseconds,
        "right_after_reset": right,
        "outcome": "passed" if passed else "failed",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.comm.verify", description=__doc__)
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--exchange", action="append", choices=list(EXCHANGES))
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--times", type=int, default=100_000, help="launches of each exchange")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    require_gpu(parser)
    facts = circumstances(options.commit, typed_command("k3decode.comm.verify", arguments))
    device, failed = torch.device("cuda"), 0
    for name in options.exchange or EXCHANGES:
        exchange = EXCHANGES[name](K3Dims(), options.ranks, options.rows, device)
        for check, record in (
            ("absent rank", absent_rank(exchange)),
            ("repeated", repeated(exchange, options.times, options.seed)),
        ):
            failed += record["outcome"] != "passed"
            line = {"schema": SCHEMA, "check": check, "exchange": name}
            shape = {"ranks": options.ranks, "rows": options.rows}
            print(json.dumps({**line, **shape, **record, **facts}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

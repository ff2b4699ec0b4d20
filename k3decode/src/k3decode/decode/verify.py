"""`python -m k3decode.decode.verify`: check the executor on a GPU, layer by layer and as a whole.

Layer by layer: each step of each layer starts from the reference's rows and state, runs through a
captured graph, and is judged by the package's one rule (`tolerance.py`). Chosen experts must be the
reference's wherever the gap behind the last of them exceeds what the logits may differ by.

As a whole: a graph of many layers must give the bits that its launches give one at a time, each
after the one before has ended, and the same bits again when it is replayed. A kernel that reads
what its predecessor has not finished fails here.

One line of JSON per layer and per batch; exit code 1 when one of them fails.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from k3decode.circumstances import circumstances
from k3decode.decode.batches import Batch
from k3decode.decode.layer_check import LayerCheck, Stream
from k3decode.decode.shard import shard_dims
from k3decode.decode.whole_check import check_whole
from k3decode.dims import K3Dims
from k3decode.needed_gpu import require_gpu

__all__ = ["main"]

SCHEMA = "k3decode.verify/1"
_BATCHES = (1, 2, 3, 5, 8, 9, 16, 17, 33, 64)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    device = torch.device("cuda")
    dims = shard_dims(K3Dims(), options.ranks)
    facts = circumstances(options.commit, "python -m k3decode.decode.verify")
    failed = 0
    for record in (*_layers(options, dims, device), *_wholes(options, dims, device)):
        failed += record["outcome"] != "passed"
        print(json.dumps({"schema": SCHEMA, **record, **facts}, allow_nan=False), flush=True)
    return 1 if failed else 0


def _layers(options: Any, dims: K3Dims, device: torch.device) -> Iterator[dict[str, Any]]:
    stream = Stream.embedded(
        dims,
        tokens=options.steps * options.tokens,
        requests=options.requests,
        seed=options.seed,
        device=device,
    )
    for number in range(options.layers):
        check = LayerCheck(dims, number, stream, seed=options.seed, tokens=options.tokens)
        yield {"check": "layer", "ranks": options.ranks, **check.run()}
        stream = check.following


def _wholes(options: Any, dims: K3Dims, device: torch.device) -> Iterator[dict[str, Any]]:
    batches = [Batch(tokens=options.tokens, requests=requests) for requests in options.batch]
    for record in check_whole(
        dims,
        layers=options.whole_layers,
        batches=batches,
        seed=options.seed,
        device=device,
        peers_of=options.ranks if options.peers else 0,
    ):
        yield {"check": "whole", "ranks": options.ranks, "peers": options.peers, **record}


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m k3decode.decode.verify", description=__doc__)
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--ranks", type=int, default=8, help="check the shard of one of so many")
    parser.add_argument("--layers", type=int, default=20, help="layers checked one by one")
    parser.add_argument("--steps", type=int, default=64, help="steps of each of them")
    parser.add_argument("--requests", type=int, default=3, help="requests of each step")
    parser.add_argument("--tokens", type=int, default=1, help="of each request in a step, 1 to 8")
    parser.add_argument("--whole-layers", type=int, default=13, help="layers of one graph")
    parser.add_argument("--batch", type=int, nargs="*", default=list(_BATCHES), help="its requests")
    parser.add_argument("--peers", action="store_true", help="whole graphs of a rank with peers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    require_gpu(parser)
    return options


if __name__ == "__main__":
    sys.exit(main())

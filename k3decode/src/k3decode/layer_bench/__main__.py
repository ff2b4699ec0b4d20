"""`python -m k3decode.layer_bench`: microseconds of a decoder layer on a GPU, as a difference.

A stack of random layers, 3 KDA to 1 MLA or all of one kind, distinct weights in each, is captured
at two depths. Their replays take turns; the difference divided by the layers between is the time of
a layer, AttnRes and norms inside, embedding, the dense layer 0 of the mix and the LM head outside.
Beside it stand the bytes that these layers must move, at 4.3 TB/s and in the time that this GPU
takes in the same run only to read as many. Each batch has one draw of experts; how many differ is
printed.

With `--peers` the rank reads its own rows of router and latent projections and exchanges the rest
through mailboxes, whose peers are stand-ins on the same GPU (comm/stand_in.py): the time has no
link in it, neither latency nor bandwidth.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from k3decode.circumstances import circumstances, typed_command
from k3decode.decode.batches import Batch
from k3decode.decode.executor import CapturedStep, DecodeExecutor
from k3decode.decode.shard import shard_dims
from k3decode.decode.whole_check import begin_step, random_executor
from k3decode.dims import K3Dims
from k3decode.layer_bench.clocks import ClockLog
from k3decode.layer_bench.draws import DRAWS, TraceError, drawn_experts, traced_experts
from k3decode.layer_bench.layer_bytes import StepShape, layer_bytes
from k3decode.layer_bench.pairs import per_layer_us
from k3decode.layer_bench.stacks import STACKS, stack_dims
from k3decode.layer_bench.timeline import profile_replays, shares
from k3decode.needed_gpu import require_compiler, require_gpu
from k3decode.replay_times import event_time_us, replay_times_us
from k3decode.turns import Turns

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["main"]

SCHEMA = "k3decode.layer_bench/1"
_BATCHES = (1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 32, 33, 48, 64)
_FLOOR_BYTES_PER_US = 4.3e6
_WARM_UP = 3
_READ_BUFFER_GB = 8.0
_DEVICE = torch.device("cuda")
_READ_COPIES = 8
_PROFILED_REPLAYS = 5
_READ_REPLAYS = 10
_replay_us = partial(replay_times_us, warm_up=_WARM_UP, replays=_READ_REPLAYS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    from k3decode.read_rate import ReadRate  # noqa: PLC0415

    facts = circumstances(options.commit, typed_command("k3decode.layer_bench", arguments))
    turns = Turns(options.turns)
    batches = [Batch(tokens=options.tokens, requests=requests) for requests in options.batch]
    with turns.together():
        executor = _executor(options, batches)
        reads = ReadRate(_DEVICE, _replay_us, buffer_bytes=int(1e9 * options.read_gigabytes))
        stacks = [_captured(executor, batch, options) for batch in batches]
    for batch, both in zip(batches, stacks, strict=True):
        with turns.alone():
            record = _timed(executor, batch, both, options, reads)
            print(json.dumps({"schema": SCHEMA, **_rounded(record), **facts}), flush=True)
            if batch.rows in options.timeline:
                _print_timeline(both[0], batch.rows)
    return 0


def _executor(options: Any, batches: Sequence[Batch]) -> DecodeExecutor:
    """Layers of the deep stack, and who chooses experts."""
    dims = stack_dims(shard_dims(K3Dims(), options.ranks), options.stack)
    layers, rows = options.depths[0], max(batches).rows
    executor = random_executor(
        dims,
        layers=layers,
        rows=rows,
        context=options.context,
        seed=options.seed,
        device=_DEVICE,
        tokens=options.tokens,
        peers_of=options.ranks if options.peers else 0,
    )
    if options.draw != "router":
        shape = (layers, rows, dims.num_experts_per_token)
        if options.draw == "trace":
            drawn = traced_experts(options.trace, shape, dims.num_experts, options.seed)
        else:
            drawn = drawn_experts(options.draw, shape, dims.num_experts, options.seed)
        executor.drawn = (drawn[0].to(_DEVICE), drawn[1].to(_DEVICE))
    return executor


def _captured(executor: DecodeExecutor, batch: Batch, options: Any) -> list[CapturedStep]:
    """The deep stack and the shallow one."""
    _begin(executor, batch, options)
    return [executor.capture(batch, depth) for depth in options.depths]


def _begin(executor: DecodeExecutor, batch: Batch, options: Any) -> None:
    begin_step(executor, batch, context=options.context, live=batch.requests, seed=options.seed)


def _timed(
    executor: DecodeExecutor,
    batch: Batch,
    stacks: Sequence[CapturedStep],
    options: Any,
    reads: "ReadRate",
) -> dict[str, Any]:
    """What a line of results says of a batch."""
    deep, shallow = options.depths
    _begin(executor, batch, options)
    with ClockLog() as clocks:
        times = _taking_turns(stacks, options.replays)
    if executor.exchanges is not None:
        executor.exchanges.check()
    floor = _floor(executor, batch, options, reads)
    layer = per_layer_us(times[0], times[1], deep - shallow)
    return {
        "rows": batch.rows,
        "tokens": batch.tokens,
        "stack": options.stack,
        "ranks": options.ranks,
        "peers": "stand-ins, no link" if options.peers else "none",
        "depths": [deep, shallow],
        "context": options.context,
        "draw": options.draw,
        "kernels_per_layer": (stacks[0].kernels - stacks[1].kernels) / (deep - shallow),
        **asdict(layer),
        "step_us": [statistics.median(one) for one in times],
        **floor,
        "floor_ratio": layer.median_us / floor["floor_us"],
        "clocks": clocks.facts(),
    }


def _floor(
    executor: DecodeExecutor, batch: Batch, options: Any, reads: "ReadRate"
) -> dict[str, Any]:
    deep, shallow = options.depths
    step = StepShape(
        requests=batch.requests,
        context=options.context,
        tokens=batch.tokens,
        peers_of=options.ranks if options.peers else 1,
    )
    routed = executor.buffers.experts if executor.drawn is None else executor.drawn[0]
    chosen = routed[shallow:deep, : batch.rows]
    distinct = [
        0 if executor.dims.is_dense(shallow + i) else int(ids.unique().numel())
        for i, ids in enumerate(chosen)
    ]
    moved = [
        layer_bytes(executor.dims, shallow + i, step, distinct_experts=count)
        for i, count in enumerate(distinct)
    ]
    mean = sum(moved) // len(moved)
    return {
        "distinct_experts": sum(distinct) / len(distinct),
        "bytes": mean,
        "floor_us": mean / _FLOOR_BYTES_PER_US,
        "read_us": reads.read_us(mean, _READ_COPIES),
    }


def _taking_turns(stacks: Sequence[CapturedStep], replays: int) -> list[list[float]]:
    """Microseconds of each replay of each stack; which comes first changes from pair to pair."""
    for _ in range(_WARM_UP):
        for stack in stacks:
            stack.graph.replay()
    times: list[list[float]] = [[] for _ in stacks]
    for turn in range(replays):
        order = list(enumerate(stacks))
        for i, stack in order if turn % 2 == 0 else order[::-1]:
            times[i].append(event_time_us(stack.graph.replay))
    return times


def _print_timeline(stack: CapturedStep, rows: int) -> None:
    """Medians over the layers of each kind, on the error stream."""
    print(f"rows {rows}: start to end, added to the step, started early, us", file=sys.stderr)
    for name, medians in shares(profile_replays(stack, _PROFILED_REPLAYS)).items():
        print(f"  {name:28s}" + "".join(f"{value:9.2f}" for value in medians), file=sys.stderr)


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in record.items()
    }


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m k3decode.layer_bench", description=__doc__)
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--ranks", type=int, default=8, help="time the shard of one of so many")
    parser.add_argument("--peers", action="store_true", help="own rows only, with polled stand-ins")
    parser.add_argument("--depths", type=int, nargs=2, default=[29, 13], help="deep and shallow")
    parser.add_argument("--stack", choices=STACKS, default="mix", help="which layers")
    parser.add_argument("--batch", type=int, nargs="*", default=list(_BATCHES), help="requests")
    parser.add_argument("--tokens", type=int, default=1, help="rows of each request, 1 to 8")
    parser.add_argument("--context", type=int, default=160, help="tokens of each request")
    parser.add_argument("--replays", type=int, default=40, help="pairs of replays")
    parser.add_argument("--timeline", type=int, nargs="*", default=[], help="rows to profile too")
    parser.add_argument("--draw", choices=DRAWS, default="uniform", help="who chose experts")
    parser.add_argument("--trace", type=Path, help="file of choices for --draw trace")
    parser.add_argument("--turns", type=Path, metavar="FILE", help="shared by processes that time")
    parser.add_argument(
        "--read-gigabytes", type=float, default=_READ_BUFFER_GB, help="of the buffer that is read"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if (options.draw == "trace") != (options.trace is not None):
        parser.error("expected --draw trace with --trace FILE, found one without the other")
    require_gpu(parser)
    require_compiler(parser)
    if options.depths[0] <= options.depths[1] or options.depths[1] < 1:
        parser.error(f"expected a deep and a shallow stack, found {options.depths}")
    return options


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TraceError as error:
        sys.exit(str(error))

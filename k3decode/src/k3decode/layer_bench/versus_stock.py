"""`python -m k3decode.layer_bench.versus_stock`: a layer of ours and of vLLM, in turns on one GPU.

Two processes hold vLLM's engine at two depths (`stock_engine`), this one holds our layers. All are
started once; then in each round each of the four graphs, ours deep and shallow, vLLM's deep and
shallow, is replayed a few times alone, and the order turns around from round to round. A path's
layer is the difference of its two depths in a round; the ratio of the rounds has Student's
interval. Both paths read router and latent projections whole, use the same draw of experts, have
AttnRes and norms inside, and have 3 KDA to 1 MLA layer. Then the routed experts alone, on the same
draws: ours, the engine's, Marlin, and a kernel that only reads as many bytes; and, if asked for,
layers with other choices of experts (`--also-drawn`), and attention of an MLA layer over caches of
1k to 256k tokens.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from k3decode.circumstances import circumstances, typed_command
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.shard import shard_dims
from k3decode.decode.whole_check import random_executor
from k3decode.dims import K3Dims
from k3decode.host.kernel_library import use_library
from k3decode.layer_bench.attention_alone import ATTENTION_CASES, time_attention
from k3decode.layer_bench.clocks import ClockLog
from k3decode.layer_bench.draws import drawn_experts
from k3decode.layer_bench.experts_alone import time_experts
from k3decode.layer_bench.layer_bytes import StepShape, layer_bytes
from k3decode.layer_bench.other_draws import OTHER_DRAWS, in_place, other_draws
from k3decode.layer_bench.pairs import median_interval
from k3decode.layer_bench.ratio import Rounds, ratio_of_rounds
from k3decode.layer_bench.sides import OurStack, Side, StockChild
from k3decode.needed_gpu import require_compiler, require_gpu
from k3decode.replay_times import replay_times_us

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["main", "take_rounds"]

SCHEMA = "k3decode.layer_bench.versus_stock/1"
# Powers of two first, in case time runs out.
_ATTENTION = "k3decode.layer_bench.attention_alone/1"
_EXPERTS = "k3decode.layer_bench.experts_alone/1"
_OTHER_DRAWS = "k3decode.layer_bench.versus_stock.other_draws/1"
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 3, 5, 9, 12, 17, 33, 48)
_FLOOR_BYTES_PER_US = 4.3e6
_READ_BUFFER_BYTES = 4_000_000_000
_READ_COPIES = 8
_WARM_UP = 2
_KERNELS_S = 120.0
_read_replays = partial(replay_times_us, warm_up=3, replays=10)
_Drawn = tuple[Tensor, Tensor]
_OURS, _STOCK = ("ours deep", "ours shallow"), ("stock deep", "stock shallow")


def take_rounds(sides: Mapping[str, Side], *, rounds: int, replays: int) -> dict[str, list[float]]:
    """Median microseconds of each side in each round.

    Args:
        sides: by name, prepared.
        rounds: how many; in every other one the order is turned around.
        replays: of a side in a round, after some that are not timed.
    """
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        order = list(sides.items())
        for name, side in order if turn % 2 == 0 else order[::-1]:
            found[name].append(statistics.median(side.times(warm_up=_WARM_UP, replays=replays)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    from k3decode.read_rate import ReadRate  # noqa: PLC0415

    facts = circumstances(
        options.commit, typed_command("k3decode.layer_bench.versus_stock", arguments)
    )
    with ExitStack() as stack:
        # They load while our layers are packed.
        stock = [stack.enter_context(_child(depth, options)) for depth in options.depths]
        executor = _executor(options)
        _wait_for_kernels(options.kernels)
        ours = [
            OurStack(executor, depth, context=options.context, seed=options.seed)
            for depth in options.depths
        ]
        reads = ReadRate(torch.device("cuda"), _read_replays, buffer_bytes=_READ_BUFFER_BYTES)
        # What is not compiled yet is compiled while the engines start.
        for rows in options.batch:
            ours[1].prepare(rows)
        said = [child.ready() for child in stock]
        print(json.dumps({"schema": f"{SCHEMA}/engines", "engines": said, **facts}), flush=True)
        sides: dict[str, Side] = dict(zip((*_OURS, *_STOCK), (*ours, *stock), strict=True))
        for schema, record in _records(sides, stock[1], executor, reads, options):
            print(json.dumps({"schema": schema, **_rounded(record), **facts}), flush=True)
    return 0


def _records(
    sides: Mapping[str, Side],
    stock: StockChild,
    executor: DecodeExecutor,
    reads: "ReadRate",
    options: Any,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Layers first, in case time runs out."""
    dims = executor.dims
    again = {"rounds": options.rounds, "replays": options.replays}
    for rows in options.batch:
        yield from _layer(rows, sides, dims, reads, options)
    for rows in options.experts_batch:
        record = time_experts(rows, stock, executor, _drawn(dims, options), reads, **again)
        yield _EXPERTS, {**record, "ranks": options.ranks, "draw": options.draw}
    for case in ATTENTION_CASES if options.attention else ():
        yield _ATTENTION, time_attention(case, stock, dims, reads, **again)


def _layer(
    rows: int,
    sides: Mapping[str, Side],
    dims: K3Dims,
    reads: "ReadRate",
    options: Any,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A layer with the draw, then with others in its place."""
    deep, shallow = options.depths
    known = {name: side.prepare(rows) for name, side in sides.items()}
    drawn = _drawn(dims, options)[0]
    with ClockLog() as clocks:
        times = take_rounds(sides, rounds=options.rounds, replays=options.replays)
    engines = [side for side in sides.values() if isinstance(side, StockChild)]
    own_us = _own_choice_us(engines, deep - shallow, options.replays)
    engine = [known[name]["engine_step_us"] for name in _STOCK]
    yield (
        SCHEMA,
        {
            **_compared(rows, drawn, times, dims, reads, options),
            "draw": options.draw,
            "engine_step_us": engine,
            "engine_layer_us": (engine[0] - engine[1]) / (deep - shallow),
            "stock_router_would_choose": [known[name]["own_experts"] for name in _STOCK],
            "stock_own_choice_us": own_us,
            "kernels": [known[name]["kernels"] for name in _OURS],
            "clocks": clocks.facts(),
        },
    )
    names = options.also_drawn if rows in options.also_batch else ()
    for name, chosen in other_draws(names, drawn, rows, dims.num_experts, options.seed, engines[0]):
        with in_place(chosen, drawn, engines):
            times = take_rounds(sides, rounds=options.rounds, replays=options.replays)
        found = _compared(rows, chosen, times, dims, reads, options)
        yield _OTHER_DRAWS, {**found, "draw": name, "in_place_of": options.draw}
    for side in sides.values():
        side.release()


def _compared(  # noqa: PLR0917
    rows: int,
    chosen: Tensor,
    times: Mapping[str, Sequence[float]],
    dims: K3Dims,
    reads: "ReadRate",
    options: Any,
) -> dict[str, Any]:
    """Both paths' layers beside the bytes of these choices."""
    layers = options.depths[0] - options.depths[1]
    ours, stock = (
        Rounds(*(tuple(times[name]) for name in names)).per_layer(layers)
        for names in (_OURS, _STOCK)
    )
    ratio = ratio_of_rounds(stock, ours)
    low, high = median_interval(ours)
    stock_low, stock_high = median_interval(stock)
    floor = _floor(rows, chosen, dims, reads, options)
    return {
        "rows": rows,
        "ranks": options.ranks,
        "depths": options.depths,
        "context": options.context,
        **floor,
        "median_us": statistics.median(ours),
        "low_us": low,
        "high_us": high,
        "stock_us": statistics.median(stock),
        "stock_low_us": stock_low,
        "stock_high_us": stock_high,
        "ratio": ratio.mean,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "floor_ratio": statistics.median(ours) / floor["floor_us"],
        "rounds_us": {name: [round(one, 2) for one in each] for name, each in times.items()},
    }


def _own_choice_us(stock: Sequence[StockChild], layers: int, replays: int) -> float | None:
    """A layer of the engine when experts are those that its routers chose for the prompts."""
    found = [one.times_of_own_choice(warm_up=_WARM_UP, replays=2 * replays) for one in stock]
    deep, shallow = (None if times is None else statistics.median(times) for times in found)
    return None if deep is None or shallow is None else (deep - shallow) / layers


def _floor(
    rows: int, chosen: Tensor, dims: K3Dims, reads: "ReadRate", options: Any
) -> dict[str, float]:
    deep, shallow = options.depths
    step = StepShape(requests=rows, context=options.context)
    distinct = [int(ids.unique().numel()) for ids in chosen[shallow:deep, :rows]]
    moved = [
        layer_bytes(dims, shallow + i, step, distinct_experts=count)
        for i, count in enumerate(distinct)
    ]
    mean = sum(moved) // len(moved)
    return {
        "distinct_experts": statistics.fmean(distinct),
        "bytes": mean,
        "floor_us": mean / _FLOOR_BYTES_PER_US,
        "read_us": reads.read_us(mean, _READ_COPIES),
    }


def _wait_for_kernels(folder: Path | None) -> None:
    """Use exported kernels, which may be written while the engines start."""
    if folder is None:
        return
    deadline = time.monotonic() + _KERNELS_S
    while not folder.is_dir() and time.monotonic() < deadline:
        time.sleep(0.2)
    use_library(folder)


@contextmanager
def _child(depth: int, options: Any) -> Any:
    arguments = {
        "--ranks": [options.ranks],
        "--batch": options.batch,
        "--context": [options.context],
        "--draw": [options.draw],
        "--drawn-layers": [options.depths[0]],
        "--seed": [options.seed],
    }
    words = [str(word) for name, values in arguments.items() for word in (name, *values)]
    child = StockChild(depth, words, options.logs / f"stock_{depth}.log")
    try:
        yield child
    finally:
        child.close()


def _executor(options: Any) -> DecodeExecutor:
    dims, device = shard_dims(K3Dims(), options.ranks), torch.device("cuda")
    deep, rows = options.depths[0], max(options.batch)
    executor = random_executor(
        dims, layers=deep, rows=rows, context=options.context, seed=options.seed, device=device
    )
    executor.drawn = _drawn(dims, options)
    return executor


@cache
def _drawn_once(draw: Any, shape: tuple[int, int, int], experts: int, seed: int) -> _Drawn:
    """One draw in this process: graphs keep its addresses."""
    chosen, shares = drawn_experts(draw, shape, experts, seed)
    return chosen.cuda(), shares.cuda()


def _drawn(dims: K3Dims, options: Any) -> _Drawn:
    shape = (options.depths[0], max(options.batch), dims.num_experts_per_token)
    return _drawn_once(options.draw, shape, dims.num_experts, options.seed)


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in record.items()
    }


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.layer_bench.versus_stock", description=__doc__
    )
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--ranks", type=int, default=8, help="time the shard of one of so many")
    parser.add_argument("--depths", type=int, nargs=2, default=[21, 9], help="deep and shallow")
    parser.add_argument("--batch", type=int, nargs="+", default=list(_BATCHES), help="rows")
    parser.add_argument("--context", type=int, default=160, help="tokens of each request")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each graph")
    parser.add_argument("--replays", type=int, default=6, help="timed in a turn")
    parser.add_argument("--draw", choices=("uniform", "skewed"), default="uniform")
    parser.add_argument(
        "--also-drawn", nargs="*", choices=OTHER_DRAWS, default=(), help="choices in its place"
    )
    parser.add_argument(
        "--also-batch", type=int, nargs="*", default=[1, 8, 32], help="rows for --also-drawn"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, default=Path(), help="folder for the engines' logs")
    parser.add_argument(
        "--kernels", type=Path, help="folder of exported kernels, waited for until it is complete"
    )
    parser.add_argument(
        "--experts-batch", type=int, nargs="*", default=list(_BATCHES), help="rows of experts alone"
    )
    parser.add_argument("--attention", action="store_true", help="MLA attention alone, too")
    options = parser.parse_args(arguments)
    require_gpu(parser)
    require_compiler(parser)
    if options.depths[0] <= options.depths[1] or options.depths[1] < 1:
        parser.error(f"expected a deep and a shallow stack, found {options.depths}")
    return options


if __name__ == "__main__":
    sys.exit(main())

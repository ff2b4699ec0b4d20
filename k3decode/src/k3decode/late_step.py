"""`python -m k3decode.late_step`: a whole decode step in which every producer is late, on a GPU.

The launches of a step are a chain of dependent launches. Here a pause is put in front of each: a
kernel that lets the next one start at once and ends, after a random time, when the one before it
has ended. So each launch starts while what it reads is not there yet, and the buffers between the
launches hold poison. The step must give the bits that the same launches give one at a time. One
line of JSON for each batch; exit code 1 when one differs.

What it cannot show: a wait that is missing in a kernel whose inputs come from the start of the
step, since only one launch is ahead of another at any time.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from k3decode.circumstances import circumstances, typed_command
from k3decode.decode.batches import Batch
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.launches import PreparedLaunch
from k3decode.decode.shard import shard_dims
from k3decode.decode.whole_check import begin_step, random_executor
from k3decode.dims import K3Dims
from k3decode.needed_gpu import require_gpu

__all__ = ["check_late_step", "main"]

SCHEMA = "k3decode.late_step/1"
_BATCHES = (1, 3, 8, 17, 64)
_CONTEXT = 200

Run = Callable[[Sequence[PreparedLaunch]], None]
"""Runs launches in order, to their end."""


def check_late_step(
    executor: DecodeExecutor, batch: Batch, seed: int, *, in_time: Run, late: Run
) -> dict[str, Any]:
    """Run a step in time, then late, each on poisoned buffers.

    Args:
        executor: with embedding and LM head.
        batch: one token per request, as many as the executor has room for or fewer.
        seed: of tokens and state.
        in_time: runs one launch after the other has ended.
        late: runs them with late producers.

    Returns:
        What a line of results says.
    """
    found = []
    # Launches are made anew, so that workspaces of the first run hold nothing for the second.
    both = [executor.launches(batch), executor.launches(batch)]
    for launches, run in zip(both, (in_time, late), strict=True):
        _poison(executor)
        begin_step(executor, batch, context=_CONTEXT, live=batch.requests, seed=seed)
        run(launches)
        found.append(_everything(executor, batch.rows))
    expected, other = found
    different = sorted(name for name, one in expected.items() if not _same(one, other[name]))
    finite = bool(torch.isfinite(expected["vocabulary"]).all())
    return {
        "layers": len(executor.layers),
        "rows": batch.rows,
        "launches": len(both[0]),
        "outcome": "passed" if finite and not different else "failed",
        "finite": finite,
        "different": different,
    }


def _poison(executor: DecodeExecutor) -> None:
    """NaN, or index 0, in all that a step hands from launch to launch."""
    for field in fields(executor.buffers):
        buffer = getattr(executor.buffers, field.name)
        buffer.fill_(float("nan") if buffer.dtype.is_floating_point else 0)


def _everything(executor: DecodeExecutor, rows: int) -> dict[str, Tensor]:
    state, buffers = executor.state, executor.buffers.first(rows)
    found = {field.name: getattr(buffers, field.name) for field in fields(buffers)}
    parts = {"taps": state.kda_taps, "memory": state.kda_memory, "pages": state.mla_pages}
    for name, tensors in parts.items():
        found |= {f"{name} {number}": tensor for number, tensor in tensors.items()}
    return {name: tensor.clone() for name, tensor in found.items()}


def _same(one: Tensor, other: Tensor) -> bool:
    bits = (tensor.contiguous().view(torch.uint8) for tensor in (one, other))
    return bool(torch.equal(*bits))


def _one_at_a_time(launches: Sequence[PreparedLaunch]) -> None:
    for launch in launches:
        launch.run()
        torch.cuda.synchronize()


def _late_runs(device: torch.device, seed: int) -> Run:
    """Replays graphs of launches with pauses between, so that no host is in their way."""
    from k3decode.jitter import Jitter  # noqa: PLC0415

    jitter = Jitter(device, seed)
    if (doubt := jitter.doubt()) is not None:
        raise RuntimeError(f"{doubt}: late inputs prove nothing on this machine")

    def run(launches: Sequence[PreparedLaunch]) -> None:
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in launches:
                jitter.pause()
                launch.run()
        graph.replay()
        torch.cuda.synchronize(device)

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.late_step", description=__doc__)
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--ranks", type=int, default=8, help="the shard of one of so many")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="*", default=list(_BATCHES), help="its rows")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    require_gpu(parser)
    device, dims = torch.device("cuda"), shard_dims(K3Dims(), options.ranks)
    facts = circumstances(options.commit, typed_command("k3decode.late_step", arguments))
    executor = random_executor(
        dims,
        layers=options.layers,
        rows=max(options.batch),
        context=_CONTEXT,
        seed=options.seed,
        device=device,
    )
    late = _late_runs(device, options.seed)
    failed = 0
    for rows in options.batch:
        batch = Batch(tokens=1, requests=rows)
        record = check_late_step(
            executor, batch, options.seed + rows, in_time=_one_at_a_time, late=late
        )
        failed += record["outcome"] != "passed"
        line = {"schema": SCHEMA, "ranks": options.ranks, **record, **facts}
        print(json.dumps(line, allow_nan=False), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

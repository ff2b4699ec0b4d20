"""`python -m k3decode.decode.record FILE`: record what a decode step gives to each kernel.

The step runs on a GPU through the executor's own launches, one at a time; before each, all that it
is given is copied to the CPU. `python -m k3decode.check --replay FILE` then judges every launch by
the reference. A layer's experts are 2 GB of the file for one rank of eight; `--op` leaves ops out.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from k3decode.decode.batches import Batch
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.decode.shard import shard_dims
from k3decode.decode.whole_check import begin_step, random_executor
from k3decode.dims import K3Dims
from k3decode.needed_gpu import require_gpu
from k3decode.recording import RecordedCall, RecordingError, recorded, write_recording
from k3decode.registry import OPS, op_named

__all__ = ["main", "record_step"]

_CONTEXT = 200


def record_step(
    launches: Iterable[PreparedLaunch],
    names: Mapping[Callable[..., None], str],
    wanted: Iterable[str],
) -> list[RecordedCall]:
    """Run launches in order and record those of some ops.

    Args:
        launches: of a step.
        names: op of each launch function.
        wanted: ops to record.

    Raises:
        RecordingError: a launch is none of these functions, so nothing says what its op is.
    """
    calls: list[RecordedCall] = []
    chosen = frozenset(wanted)
    for place, launch in enumerate(launches):
        call = launch.run
        if not isinstance(call, partial) or call.func not in names:
            raise RecordingError(
                f"launch {place}, {launch.name}: expected a call of an op's launch, found "
                f"{call!r}: add its op to the registry"
            )
        op = names[call.func]
        if op in chosen:
            where = f"launch {place}, {launch.name}"
            call = partial(
                recorded(op, call.func, calls, partial(str, where)), *call.args, **call.keywords
            )
        call()
    return calls


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    device, batch = torch.device("cuda"), Batch(tokens=1, requests=options.rows)
    executor = random_executor(
        shard_dims(K3Dims(), options.ranks),
        layers=options.layers,
        rows=options.rows,
        context=_CONTEXT,
        seed=options.seed,
        device=device,
    )
    begin_step(executor, batch, context=_CONTEXT, live=options.rows, seed=options.seed)
    names = {op.launch: op.name for op in OPS}
    calls = record_step(executor.launches(batch), names, options.op or names.values())
    write_recording(options.file, calls)
    print(f"{len(calls)} launches in {options.file}", file=sys.stderr)
    return 0


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m k3decode.decode.record", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--op", action="append", help="record this op; all of them by default")
    parser.add_argument("--ranks", type=int, default=8, help="record the shard of one of so many")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        for name in options.op or ():
            op_named(name)
    except ValueError as error:
        parser.error(str(error))
    if not options.file.parent.is_dir():
        parser.error(f"expected a folder for {options.file}, found none: make it first")
    require_gpu(parser)
    return options


if __name__ == "__main__":
    sys.exit(main())

"""`python -m k3decode.bench [OP ...]`: time production cases on the GPU; no time on a red check.

Each case is captured in a graph of several launches on buffers of their own, together larger than
the L2 cache where memory allows, and replayed; the time is the median replay divided by the
launches, so it holds the gap between two launches too. One line of JSON per case, with the byte
floor: the bytes the case must move at the GPU's peak bandwidth.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import torch

from k3decode.check import check_op
from k3decode.cost import roofline_us
from k3decode.hardware import gpu_named
from k3decode.op import Case, Op, Trial
from k3decode.registry import OPS, op_named

__all__ = ["CaseTiming", "main", "time_case"]

SCHEMA = "k3decode.bench/1"
# Four times the largest L2 of the GPUs we know on Hopper, so that inputs come from memory.
_ROTATED_BYTES = 240_000_000
_MAX_COPIES = 48
_WARM_UP_REPLAYS = 5
_REPLAYS = 30


@dataclass(frozen=True)
class CaseTiming:
    """Time of one case."""

    op: str
    case: str
    latency_us: float
    """Median over replays, per launch."""
    spread_us: float
    """Largest minus smallest replay, per launch."""
    bandwidth_gb_per_s: float
    roofline_us: float
    sol_fraction: float
    """Roofline over latency."""
    read_bytes: int
    write_bytes: int
    copies: int
    """Buffers that are rotated; together below the L2 cache, the time is a warm one."""
    cold: bool


def time_case(op: Op, case: Case, device: torch.device, gpu_name: str) -> CaseTiming:
    """Capture, replay, take the median."""
    first = case.prepare(op.launch, device)
    copies = min(_MAX_COPIES, max(2, -(-_ROTATED_BYTES // first.cost.bytes)))
    trials = [first, *(case.prepare(op.launch, device) for _ in range(copies - 1))]
    replays = _replay_us(trials)
    latency = statistics.median(replays) / copies
    floor = roofline_us(first.cost, gpu_named(gpu_name))
    return CaseTiming(
        op=op.name,
        case=case.name,
        latency_us=round(latency, 3),
        spread_us=round((max(replays) - min(replays)) / copies, 3),
        bandwidth_gb_per_s=round(first.cost.bytes / latency / 1e3, 1),
        roofline_us=round(floor, 4),
        sol_fraction=round(floor / latency, 4),
        read_bytes=first.cost.read_bytes,
        write_bytes=first.cost.write_bytes,
        copies=copies,
        cold=copies * first.cost.bytes >= _ROTATED_BYTES,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.bench", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to time; all of them by default")
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    options = parser.parse_args(arguments)
    try:
        ops = [op_named(name) for name in options.op] or list(OPS)
    except ValueError as error:
        parser.error(str(error))
    if not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none: kernels run on a GPU only")
    device = torch.device("cuda")
    circumstances = _circumstances(options.commit)
    red = 0
    for op in ops:
        found = check_op(op, op.launch, device, groups=("smoke", "corner", "production"))
        bad = [r for r in found if r.outcome != "passed"]
        if bad:
            print(f"{op.name}: {len(bad)} cases do not pass, nothing is timed", file=sys.stderr)
            red += 1
            continue
        for case in op.cases:
            if case.group == "production":
                timing = time_case(op, case, device, str(circumstances["gpu"]))
                record = {"schema": SCHEMA, **asdict(timing), **circumstances}
                print(json.dumps(record, allow_nan=False), flush=True)
    return 1 if red else 0


def _replay_us(trials: Sequence[Trial]) -> list[float]:
    """Microseconds of each replay of a graph with one launch per trial."""
    for trial in trials:
        trial.run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for trial in trials:
            trial.run()
    for _ in range(_WARM_UP_REPLAYS):
        graph.replay()
    times = []
    for _ in range(_REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return times


def _circumstances(commit: str) -> dict[str, str]:
    """What a number needs beside it to mean anything."""
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    driver, clock = (part.strip() for part in found[0].split(","))
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "maximum_sm_clock": clock,
        "torch": str(torch.__version__),
        "cutlass_dsl": version("nvidia-cutlass-dsl"),
        "python": platform.python_version(),
        "commit": commit,
        "command": "python -m k3decode.bench",
        "measured_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


if __name__ == "__main__":
    sys.exit(main())

"""`python -m k3decode.bench [OP ...]`: time production cases on the GPU; no time on a red check.

Each case is captured in a graph of several launches on buffers of their own, together larger than
the L2 cache where memory allows, and replayed; the time is the median replay divided by the
launches, so it holds the gap between two launches too. One line of JSON per case, with the byte
floor: the bytes the case must move at the GPU's peak bandwidth. Beside cases that read much stands
the time in which the same GPU, in the same run, only reads as many bytes.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import torch

from k3decode.check import check_case
from k3decode.circumstances import circumstances
from k3decode.cost import Cost, roofline_us
from k3decode.hardware import gpu_named
from k3decode.op import Case, Op, Trial
from k3decode.registry import OPS, op_named

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["CaseTiming", "main", "time_case"]

SCHEMA = "k3decode.bench/1"
# Four times the largest L2 of the GPUs we know on Hopper, so that inputs come from memory.
_ROTATED_BYTES = 240_000_000
_MAX_COPIES = 48
_WARM_UP_REPLAYS = 5
_REPLAYS = 30
# Below this a read is all launch and latency, and its time says little about another kernel's.
_LITTLE_BYTES = 4_000_000
# Two pieces of the largest case.
_READ_BUFFER_BYTES = 4_000_000_000


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
    read_us: float | None
    """Time of a kernel that only reads `read_bytes`; None for cases that read little."""
    read_ratio: float | None
    """Latency over that time."""
    facts: Mapping[str, int]
    """What the op says beside it; a mean over the copies, rounded down."""


def time_case(
    op: Op, case: Case, device: torch.device, gpu_name: str, reads: "ReadRate"
) -> CaseTiming:
    """Capture, replay, take the median."""
    first = case.prepare(op.launch, device)
    copies = min(_MAX_COPIES, max(2, -(-_ROTATED_BYTES // first.cost.bytes)))
    trials = [first, *(case.prepare(op.launch, device) for _ in range(copies - 1))]
    replays = _replay_us([trial.run for trial in trials])
    latency = statistics.median(replays) / copies
    cost = _mean_cost(trials)
    floor = roofline_us(cost, gpu_named(gpu_name))
    read_us = reads.read_us(cost.read_bytes, copies) if cost.read_bytes > _LITTLE_BYTES else None
    return CaseTiming(
        op=op.name,
        case=case.name,
        latency_us=round(latency, 3),
        spread_us=round((max(replays) - min(replays)) / copies, 3),
        bandwidth_gb_per_s=round(cost.bytes / latency / 1e3, 1),
        roofline_us=round(floor, 4),
        sol_fraction=round(floor / latency, 4),
        read_bytes=cost.read_bytes,
        write_bytes=cost.write_bytes,
        copies=copies,
        cold=copies * cost.bytes >= _ROTATED_BYTES,
        read_us=None if read_us is None else round(read_us, 3),
        read_ratio=None if read_us is None else round(latency / read_us, 3),
        facts={name: sum(trial.facts[name] for trial in trials) // copies for name in first.facts},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.bench", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to time; all of them by default")
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--case", action="append", help="production cases to time, by name")
    options = parser.parse_args(arguments)
    try:
        ops = [op_named(name) for name in options.op] or list(OPS)
    except ValueError as error:
        parser.error(str(error))
    if not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none: kernels run on a GPU only")
    device = torch.device("cuda")
    facts = circumstances(options.commit, "python -m k3decode.bench")
    from k3decode.read_rate import ReadRate  # noqa: PLC0415

    reads = ReadRate(device, _replay_us, buffer_bytes=_READ_BUFFER_BYTES)
    red = 0
    for op in ops:
        timed = [case for case in op.cases if _is_timed(case, options.case)]
        checked = [case for case in op.cases if case in timed or case.group in {"smoke", "corner"}]
        found = (check_case(op, case, op.launch, device) for case in checked)
        bad = [r for r in found if r.outcome != "passed"]
        if bad:
            print(f"{op.name}: {len(bad)} cases do not pass, nothing is timed", file=sys.stderr)
            red += 1
            continue
        for case in timed:
            timing = time_case(op, case, device, facts["gpu"], reads)
            record = {"schema": SCHEMA, **asdict(timing), **facts}
            print(json.dumps(record, allow_nan=False), flush=True)
    return 1 if red else 0


def _is_timed(case: Case, names: Sequence[str] | None) -> bool:
    return case.group == "production" and (names is None or case.name in names)


def _mean_cost(trials: Sequence[Trial]) -> Cost:
    """Copies may draw other inputs, and then read other amounts."""
    return Cost(
        flops=sum(trial.cost.flops for trial in trials) // len(trials),
        read_bytes=sum(trial.cost.read_bytes for trial in trials) // len(trials),
        write_bytes=sum(trial.cost.write_bytes for trial in trials) // len(trials),
    )


def _replay_us(launches: Sequence[Callable[[], None]]) -> list[float]:
    """Microseconds of each replay of a graph with these launches."""
    for launch in launches:
        launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
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


if __name__ == "__main__":
    sys.exit(main())

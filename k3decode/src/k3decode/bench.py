"""`python -m k3decode.bench [OP ...]`: time production cases on the GPU; no time on a red check.

Each case is captured in a graph of several launches on buffers of their own, together larger than
the L2 cache where memory allows, and replayed; the time is the median replay divided by the
launches, so it holds the gap between two launches too. One line of JSON per case, with the byte
floor: the bytes the case must move at the GPU's peak bandwidth. Beside cases that read much stands
the time in which the same GPU, in the same run, only reads as many bytes.

Cases are checked first; `--checked FILE` takes the lines that the check wrote at the same commit
instead. Processes that share `--turns FILE` prepare at the same time and time alone.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from k3decode.check import check_case
from k3decode.circumstances import circumstances, typed_command
from k3decode.cost import Cost, roofline_us
from k3decode.hardware import gpu_named
from k3decode.json_lines import read_json_lines
from k3decode.needed_gpu import require_gpu
from k3decode.op import Case, Op, Part, Trial
from k3decode.registry import OPS, op_named
from k3decode.replay_times import replay_times_us
from k3decode.turns import Turns

if TYPE_CHECKING:
    from k3decode.read_rate import ReadRate

__all__ = ["CaseTiming", "main", "passed_cases", "time_case", "time_op"]

SCHEMA = "k3decode.bench/1"
# Four times the largest L2 of the GPUs we know on Hopper, so that inputs come from memory.
_ROTATED_BYTES = 240_000_000
_MAX_COPIES = 48
_WARM_UP_REPLAYS = 5
_REPLAYS = 30
# Below this a read is all launch and latency, and its time says little about another kernel's.
_LITTLE_BYTES = 4_000_000
# Larger cases are read at its rate.
_READ_BUFFER_BYTES = 2_000_000_000
_VERDICT_FIELDS = {"op": str, "case": str, "outcome": str}
_CHECK_FIRST = "write it with k3decode.check --json --commit COMMIT"
_ALL = Part()
_replay_us = partial(replay_times_us, warm_up=_WARM_UP_REPLAYS, replays=_REPLAYS)


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


def time_case(  # noqa: PLR0917
    op: Op, case: Case, device: torch.device, gpu_name: str, reads: "ReadRate", turns: Turns
) -> CaseTiming:
    """Capture, replay, take the median."""
    with turns.together():
        first = case.prepare(op.launch, device)
        copies = min(_MAX_COPIES, max(2, -(-_ROTATED_BYTES // first.cost.bytes)))
        trials = [first, *(case.prepare(op.launch, device) for _ in range(copies - 1))]
        # What is not compiled yet is compiled here.
        first.run()
        torch.cuda.synchronize(device)
    cost = _mean_cost(trials)
    many = cost.read_bytes > _LITTLE_BYTES
    with turns.alone():
        replays = _replay_us([trial.run for trial in trials])
        read_us = reads.read_us(cost.read_bytes, copies) if many else None
    latency = statistics.median(replays) / copies
    floor = roofline_us(cost, gpu_named(gpu_name))
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
    options = _options(arguments)
    device = torch.device("cuda")
    facts = circumstances(options.commit, typed_command("k3decode.bench", arguments))
    from k3decode.read_rate import ReadRate  # noqa: PLC0415

    turns = Turns(options.turns)
    with turns.together():
        reads = ReadRate(device, _replay_us, buffer_bytes=_READ_BUFFER_BYTES)

    def timed(op: Op, case: Case) -> None:
        timing = time_case(op, case, device, facts["gpu"], reads, turns)
        record = {"schema": SCHEMA, **asdict(timing), **facts}
        print(json.dumps(record, allow_nan=False), flush=True)

    good = True
    for op in options.ops:
        passed = options.passed
        if passed is None:
            with turns.together():
                passed = _passed_now(op, _needed(op, options.case), device)
        good = time_op(op, options.case, passed, timed, part=options.part) and good
    return 0 if good else 1


def time_op(
    op: Op,
    names: Sequence[str] | None,
    passed: Container[tuple[str, str]],
    time_one: Callable[[Op, Case], None],
    *,
    part: Part = _ALL,
) -> bool:
    """Time an op's production cases, or say on stderr why not.

    Args:
        op: whose cases.
        names: which of them; None for all.
        passed: ops and cases that passed; timed is only where all that are needed are among them.
        time_one: times one case.
        part: of the chosen cases.

    Returns:
        Whether it was timed.
    """
    bad = [case.name for case in _needed(op, names) if (op.name, case.name) not in passed]
    if bad:
        print(
            f"{op.name}: {len(bad)} cases did not pass, {bad[0]} among them, nothing is timed",
            file=sys.stderr,
        )
        return False
    for case in part.taken([case for case in op.cases if _is_timed(case, names)]):
        time_one(op, case)
    return True


def _needed(op: Op, names: Sequence[str] | None) -> list[Case]:
    """Cases that must pass before an op is timed."""
    plain = {"smoke", "corner"}
    return [case for case in op.cases if case.group in plain or _is_timed(case, names)]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m k3decode.bench", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to time; all of them by default")
    parser.add_argument("--commit", required=True, help="commit of the code that runs")
    parser.add_argument("--case", action="append", help="production cases to time, by name")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th of the cases")
    parser.add_argument("--checked", type=Path, metavar="FILE", help="lines of the check")
    parser.add_argument("--turns", type=Path, metavar="FILE", help="shared with other processes")
    options = parser.parse_args(arguments)
    try:
        options.ops = [op_named(name) for name in options.op] or list(OPS)
        options.part = Part.of(options.part)
        options.passed = options.checked and passed_cases(options.checked, options.commit)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    require_gpu(parser)
    return options


def passed_cases(path: Path, commit: str) -> set[tuple[str, str]]:
    """Ops and cases that the check's lines call passed, all at this commit.

    Raises:
        ValueError: a line is of another commit, or of no check, or cannot be read.
    """
    records = read_json_lines(
        path, {"schema": str}, _CHECK_FIRST, by_kind={"check": _VERDICT_FIELDS}
    )
    for record in records:
        if not record["schema"].startswith("k3decode.check/"):
            raise ValueError(
                f"{path}: expected lines of the check, found schema {record['schema']!r}: "
                f"{_CHECK_FIRST}"
            )
        if record.get("commit") != commit:
            raise ValueError(
                f"{path}: expected cases that were checked at {commit}, found "
                f"{record.get('commit')!r}: check again with --commit"
            )
    return {(r["op"], r["case"]) for r in records if r["outcome"] == "passed"}


def _passed_now(op: Op, cases: Sequence[Case], device: torch.device) -> set[tuple[str, str]]:
    reports = (check_case(op, case, op.launch, device) for case in cases)
    return {(r.op, r.case) for r in reports if r.outcome == "passed"}


def _is_timed(case: Case, names: Sequence[str] | None) -> bool:
    return case.group == "production" and (names is None or case.name in names)


def _mean_cost(trials: Sequence[Trial]) -> Cost:
    """Copies may draw other inputs, and then read other amounts."""
    return Cost(
        flops=sum(trial.cost.flops for trial in trials) // len(trials),
        read_bytes=sum(trial.cost.read_bytes for trial in trials) // len(trials),
        write_bytes=sum(trial.cost.write_bytes for trial in trials) // len(trials),
    )


if __name__ == "__main__":
    sys.exit(main())

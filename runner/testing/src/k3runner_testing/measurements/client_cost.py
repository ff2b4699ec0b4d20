"""What the load client costs: `python -m k3runner_testing.measurements.client_cost`.

Two measurements in one run, against the fast server on another core:

- how many one-token events per second one core receives and records over 64 streams, and how late
  its event loop is while it does;
- CPU time per streamed token of our client and of `vllm bench serve`, alternating, on the same
  prompts, bodies, streams and pace. Ours counts everything up to the records.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from k3runner_testing.measurements.bench_serve import bench_serve
from k3runner_testing.measurements.conditions import conditions
from k3runner_testing.measurements.own_client import OwnRun, run_own_client
from k3runner_testing.measurements.vllm_server import write_tiny_model
from k3runner_testing.measurements.workload import Workload

__all__ = ["main"]

_STREAMS = 64
_WANTED_EVENTS_PER_S = 20_000
_LAG_GATE_MS = 5.0
_CPU_GATE = 0.85
_LARGEST_COST_RATIO = 0.5
_FAST = Workload(requests=128, concurrency=_STREAMS, prompt_words=8, output_tokens=1500)
_FAST_TICK_MS = 1e3 * _STREAMS / 22_000
"""A little above the wanted rate, because streams that begin and end have pauses."""
_COMPARED = Workload(requests=64, concurrency=_STREAMS, prompt_words=8, output_tokens=300)
_COMPARED_TICK_MS = 16.0
"""4,000 events/s: a pace at which both clients keep up."""
_ROUNDS = 5


def main(arguments: list[str]) -> int:
    """Measures and writes the result.

    Returns:
        0 when both bounds hold, else 1.
    """
    parser = argparse.ArgumentParser(prog="client_cost")
    parser.add_argument("--engine-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="result as JSON")
    parser.add_argument(
        "--real-time",
        action="store_true",
        help="real-time priority for the sending process and the server, on a busy machine",
    )
    parser.add_argument("--part", choices=["all", "one-core", "cost"], default="all")
    options = parser.parse_args(arguments)
    # Parts may be measured at different times; each says under which conditions.
    result = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else {}
    cores = _two_cores()
    if options.part != "cost":
        before = conditions()
        found = _receive_fast(cores, real_time=options.real_time)
        result["one_core"] = {"conditions": before, "real_time": options.real_time, **found}
    if options.part != "one-core":
        before = conditions()
        with tempfile.TemporaryDirectory() as text:
            python, real_time = options.engine_python.absolute(), options.real_time
            found = _compare(python, Path(text), cores, real_time=real_time)
        result["cost"] = {"conditions": before, "real_time": real_time, **found}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))
    return 0 if all(part["holds"] for part in result.values()) else 1


def _two_cores() -> tuple[int, int]:
    """A core for the client and one for the server; the client's children stay on its core."""
    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {first})
    return first, others[-1] if others else first


@contextmanager
def _fast_server(
    tick_ms: float, core: int, *, real_time: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    said: dict[str, Any] = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "k3runner_testing.fast_server", "--tick-ms", str(tick_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.sched_setaffinity(process.pid, {core})
    if real_time:
        os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(1))
    try:
        if process.stdout is None:
            raise AssertionError("the fast server has no standard output")
        yield json.loads(process.stdout.readline())["url"], said
    finally:
        last, _ = process.communicate(timeout=20)
        said |= json.loads(last)


def _receive_fast(cores: tuple[int, int], *, real_time: bool) -> dict[str, Any]:
    with _fast_server(_FAST_TICK_MS, cores[1], real_time=real_time) as (url, server):
        run = run_own_client(url, _FAST, real_time=real_time)
    (process,) = run.load.client.processes
    events = _token_events(run)
    rate = events / (run.load.wall_ns / 1e9)
    # The recording side shares the core, so the core's share is that of both.
    share = run.cpu_ns / process.wall_ns
    return {
        "streams": _STREAMS,
        "events": events,
        "events_per_s": round(rate),
        "loop_lag_ms_p50": process.lag_ms_p50,
        "loop_lag_ms_p99": process.lag_ms_p99,
        "loop_lag_ms_max": process.lag_ms_max,
        "sending_process_cpu_share": process.cpu_ns / process.wall_ns,
        "core_cpu_share": share,
        "failed_requests": sum(r.outcome.status == "failed" for r in run.load.records),
        "server": server,
        "gates": {
            "events_per_s": _WANTED_EVENTS_PER_S,
            "loop_lag_ms_p99": _LAG_GATE_MS,
            "sending_process_cpu_share": _CPU_GATE,
        },
        "holds": rate >= _WANTED_EVENTS_PER_S
        and process.lag_ms_p99 <= _LAG_GATE_MS
        and process.cpu_ns <= _CPU_GATE * process.wall_ns,
    }


def _compare(
    engine_python: Path, folder: Path, cores: tuple[int, int], *, real_time: bool
) -> dict[str, Any]:
    model = write_tiny_model(engine_python, folder)
    ours: list[float] = []
    sending: list[float] = []
    theirs: list[float] = []
    with (
        _fast_server(_COMPARED_TICK_MS, cores[1]) as (url, _),
        bench_serve(engine_python, model, folder) as bench,
    ):
        bench.run(url, _COMPARED)
        if real_time:
            for pid in (0, bench.pid):
                os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        for _ in range(_ROUNDS):
            found = bench.run(url, _COMPARED)
            theirs.append(found.cpu_ns / found.output_tokens / 1e3)
            run = run_own_client(url, _COMPARED)
            tokens = _token_events(run)
            ours.append(run.cpu_ns / tokens / 1e3)
            sending.append(run.load.client.processes[0].cpu_ns / tokens / 1e3)
    ratio = statistics.median(ours) / statistics.median(theirs)
    return {
        "streams": _STREAMS,
        "tokens_per_round": _COMPARED.requests * _COMPARED.output_tokens,
        "ours_cpu_us_per_token": ours,
        "of_it_sending_process": sending,
        "vllm_bench_serve_cpu_us_per_token": theirs,
        "ratio_of_medians": ratio,
        "largest_ratio": _LARGEST_COST_RATIO,
        "holds": ratio <= _LARGEST_COST_RATIO,
    }


def _token_events(run: OwnRun) -> int:
    return sum(len(record.events) for record in run.load.records)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

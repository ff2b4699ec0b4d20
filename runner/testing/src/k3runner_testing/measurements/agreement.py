"""Whether the load client measures what others do: `-m k3runner_testing.measurements.agreement`.

One real vLLM on this machine's CPU, one workload, one run:

- rounds of `vllm bench serve` and of our client in the order A-B-B-A: mean TTFT, mean TPOT and
  throughput of each round, and whether a 95 % interval of the difference holds 0;
- every request of a further round of ours beside the server's own metrics of that request.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy import stats

from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3runner_testing.measurements.bench_serve import RunBenchServe, bench_serve
from k3runner_testing.measurements.conditions import conditions
from k3runner_testing.measurements.own_client import (
    ServedRequest,
    run_own_client,
    run_with_server_metrics,
)
from k3runner_testing.measurements.vllm_server import vllm_server, write_tiny_model
from k3runner_testing.measurements.workload import Workload

__all__ = ["main"]

_WORKLOAD = Workload(requests=32, concurrency=4, prompt_words=24, output_tokens=32)
_WARM_UP = replace(_WORKLOAD, requests=8, seed="warm-up")
_BLOCKS = 3
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class _Round:
    """Means of one round."""

    ttft_ms: float
    tpot_ms: float
    output_tokens_per_s: float
    cpu_us_per_token: float


def main(arguments: list[str]) -> int:
    """Measures and writes the result.

    Returns:
        0 when both clients agree and every request fits the server's metrics, else 1.
    """
    parser = argparse.ArgumentParser(prog="agreement")
    parser.add_argument("--engine-python", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="result as JSON")
    options = parser.parse_args(arguments)
    python = options.engine_python.absolute()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        model = write_tiny_model(python, folder)
        before = conditions()
        with (
            vllm_server(python, model, folder / "engine.log") as url,
            bench_serve(python, model, folder) as bench,
        ):
            run_own_client(url, _WARM_UP)
            bench.run(url, _WARM_UP)
            theirs, ours = _rounds(url, bench.run)
            served = run_with_server_metrics(url, replace(_WORKLOAD, seed="served"))
    metrics = {
        name: _compare([getattr(r, name) for r in theirs], [getattr(r, name) for r in ours])
        for name in ("ttft_ms", "tpot_ms", "output_tokens_per_s")
    }
    requests = _beside_server(served)
    result = {
        "conditions": before,
        "workload": vars(_WORKLOAD),
        "order": "A-B-B-A, A is vllm bench serve",
        "rounds": metrics,
        "cpu_us_per_token": {
            "vllm_bench_serve": [one.cpu_us_per_token for one in theirs],
            "ours": [one.cpu_us_per_token for one in ours],
        },
        "per_request": requests,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps({**result, "per_request": requests["summary"]}, indent=1))
    agree = all(metric["agrees"] for metric in metrics.values())
    return 0 if agree and requests["summary"]["fits"] else 1


def _rounds(url: str, run_bench_serve: RunBenchServe) -> tuple[list[_Round], list[_Round]]:
    theirs: list[_Round] = []
    ours: list[_Round] = []
    order = ("theirs", "ours", "ours", "theirs") * _BLOCKS
    for number, who in enumerate(order):
        # Prompts of their own: nothing that one client sent is known to the server afterwards.
        workload = replace(_WORKLOAD, seed=f"round-{number}")
        if who == "theirs":
            found = run_bench_serve(url, workload)
            if found.completed != workload.requests:
                raise SystemExit(f"vllm bench serve completed {found.completed} requests")
            cpu_us = found.cpu_ns / found.output_tokens / 1e3
            theirs.append(_Round(found.ttft_ms, found.tpot_ms, found.output_tokens_per_s, cpu_us))
        else:
            ours.append(_own_round(url, workload))
    return theirs, ours


def _own_round(url: str, workload: Workload) -> _Round:
    run = run_own_client(url, workload)
    records = run.load.records
    rate = output_tokens_per_s(records)
    ttft = [value for value in map(ttft_ms, records) if value is not None]
    tpot = [value for value in map(tpot_ms, records) if value is not None]
    if rate is None or len(ttft) != workload.requests or len(tpot) != workload.requests:
        raise SystemExit("a request of our client failed")
    cpu_us = run.cpu_ns / (workload.requests * workload.output_tokens) / 1e3
    return _Round(statistics.mean(ttft), statistics.mean(tpot), rate, cpu_us)


def _compare(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, Any]:
    """Both means, and Welch's interval of the relative difference."""
    base = statistics.mean(theirs)
    relative = [value / base for value in theirs], [value / base for value in ours]
    found = stats.ttest_ind(relative[1], relative[0], equal_var=False)
    interval = found.confidence_interval(_CONFIDENCE)
    return {
        "vllm_bench_serve": list(theirs),
        "ours": list(ours),
        "difference": statistics.mean(ours) / base - 1,
        "interval_95": [float(interval.low), float(interval.high)],
        "agrees": bool(interval.low <= 0 <= interval.high),
    }


def _beside_server(served: Sequence[ServedRequest]) -> dict[str, Any]:
    rows = [_row(one) for one in sorted(served, key=lambda one: one.record.index)]
    ttft = [row["client_ttft_ms"] - row["server_ttft_ms"] for row in rows]
    decode = [row["client_decode_ms"] - row["server_decode_ms"] for row in rows]
    spans = [row["server_decode_ms"] for row in rows]
    return {
        "summary": {
            "requests": len(rows),
            "ttft_client_minus_server_ms": _spread(ttft),
            "decode_client_minus_server_ms": _spread(decode),
            "decode_difference_share": statistics.mean(map(abs, decode)) / statistics.mean(spans),
            # A client can't see a token before the server made it.
            "fits": min(ttft) >= 0 and len(rows) == _WORKLOAD.requests,
        },
        "rows": rows,
    }


def _row(one: ServedRequest) -> dict[str, float]:
    record, server = one.record, one.server
    ttft = ttft_ms(record)
    if ttft is None or "time_to_first_token_ms" not in server:
        raise SystemExit(f"request {record.index} failed, or the server gave no metrics: {record}")
    return {
        "index": record.index,
        "client_ttft_ms": ttft,
        "server_ttft_ms": server["queue_time_ms"] + server["time_to_first_token_ms"],
        "client_decode_ms": (record.events[-1].at_ns - record.events[0].at_ns) / 1e6,
        "server_decode_ms": server["generation_time_ms"],
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "smallest": min(values),
        "median": statistics.median(values),
        "largest": max(values),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Calls `vllm bench serve` and reads its result file."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k3runner_testing.measurements.workload import EXTRA_BODY, MODEL, Workload

__all__ = ["BenchServe", "BenchServeProcess", "RunBenchServe", "bench_serve"]

_SCRIPT = Path(__file__).with_name("bench_serve_process.py")
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_PLUGINS": "k3decode",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class BenchServe:
    """What `vllm bench serve` reported."""

    completed: int
    """Requests that it counts as completed."""
    output_tokens: int
    """Generated tokens."""
    ttft_ms: float
    """Mean time to first token."""
    tpot_ms: float
    """Mean time per output token."""
    output_tokens_per_s: float
    """Output throughput."""
    cpu_ns: int
    """CPU time of its benchmark."""


RunBenchServe = Callable[[str, Workload], BenchServe]
"""Runs a workload against a base URL."""


@dataclass(frozen=True)
class BenchServeProcess:
    """A `vllm bench serve` that waits for work."""

    run: RunBenchServe
    """Runs a workload."""
    pid: int
    """Its process."""


@contextmanager
def bench_serve(engine_python: Path, model: Path, folder: Path) -> Iterator[BenchServeProcess]:
    """Starts `vllm bench serve` once, for any number of runs.

    Args:
        engine_python: Python of the engine's environment.
        model: Folder of the model, for its tokenizer.
        folder: Where its files go.

    Raises:
        SystemExit: A run failed, with its last words.
    """
    log = folder / "bench-serve.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(engine_python), str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env={**os.environ, **_ENVIRONMENT},
            text=True,
        )

    def run(url: str, workload: Workload) -> BenchServe:
        prompts, cost = folder / "prompts.jsonl", folder / "cost.json"
        workload.write_prompts(prompts)
        wanted = {
            "prompts": str(prompts),
            "cost": str(cost),
            "output_tokens": workload.output_tokens,
            "arguments": _arguments(url, model, workload, folder),
        }
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process has no pipes")
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "done\n":
            words = log.read_text("utf-8", "replace")[-2000:]
            raise SystemExit(f"vllm bench serve failed:\n{words}")
        return _result(folder, cost)

    try:
        yield BenchServeProcess(run, process.pid)
    finally:
        process.communicate(timeout=60)


def _arguments(url: str, model: Path, workload: Workload, folder: Path) -> list[str]:
    return [
        *("--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"),
        *("--model", MODEL, "--tokenizer", str(model)),
        *("--dataset-name", "custom", "--num-prompts", str(workload.requests)),
        *("--ignore-eos", "--disable-tqdm"),
        *("--max-concurrency", str(workload.concurrency)),
        *("--extra-body", json.dumps(EXTRA_BODY), "--ready-check-timeout-sec", "0"),
        *("--save-result", "--result-dir", str(folder)),
        *("--result-filename", "bench-serve.json"),
    ]


def _result(folder: Path, cost: Path) -> BenchServe:
    found = json.loads((folder / "bench-serve.json").read_text("utf-8"))
    return BenchServe(
        completed=found["completed"],
        output_tokens=found["total_output_tokens"],
        ttft_ms=found["mean_ttft_ms"],
        tpot_ms=found["mean_tpot_ms"],
        output_tokens_per_s=found["output_throughput"],
        cpu_ns=json.loads(cost.read_text("utf-8"))["cpu_ns"],
    )

"""Calls `vllm bench serve` and reads its result file."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from k3runner_testing.measurements.workload import EXTRA_BODY, MODEL, Workload

__all__ = ["BenchServe", "run_bench_serve"]

_SCRIPT = Path(__file__).with_name("bench_serve_script.py")
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


def run_bench_serve(
    engine_python: Path, model: Path, url: str, workload: Workload, folder: Path
) -> BenchServe:
    """Runs a workload.

    Args:
        engine_python: Python of the engine's environment.
        model: Folder of the model, for its tokenizer.
        url: Base URL of the server.
        workload: What to send.
        folder: Where its files go.

    Raises:
        SystemExit: It failed, with its last words.
    """
    prompts, cost = folder / "prompts.jsonl", folder / "cost.json"
    workload.write_prompts(prompts)
    log = folder / "bench-serve.log"
    with log.open("ab") as sink:
        done = subprocess.run(
            [
                *(str(engine_python), str(_SCRIPT)),
                *(str(prompts), str(cost), str(workload.output_tokens)),
                *("--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"),
                *("--model", MODEL, "--tokenizer", str(model)),
                *("--dataset-name", "custom", "--num-prompts", str(workload.requests)),
                *("--ignore-eos", "--disable-tqdm"),
                *("--max-concurrency", str(workload.concurrency)),
                *("--extra-body", json.dumps(EXTRA_BODY), "--ready-check-timeout-sec", "0"),
                *("--save-result", "--result-dir", str(folder)),
                *("--result-filename", "bench-serve.json"),
            ],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"vllm bench serve failed:\n{log.read_text('utf-8', 'replace')[-2000:]}")
    found = json.loads((folder / "bench-serve.json").read_text("utf-8"))
    return BenchServe(
        completed=found["completed"],
        output_tokens=found["total_output_tokens"],
        ttft_ms=found["mean_ttft_ms"],
        tpot_ms=found["mean_tpot_ms"],
        output_tokens_per_s=found["output_throughput"],
        cpu_ns=json.loads(cost.read_text("utf-8"))["cpu_ns"],
    )

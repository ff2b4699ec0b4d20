"""Runs `vllm bench serve` on given prompts in the engine's environment, and says what it cost.

Run by the engine's Python: `bench_serve_script.py PROMPTS COST_FILE OUTPUT_TOKENS ARGUMENTS...`.
Only the benchmark itself is counted, from its first request to its last number; imports and data
preparation are not. Its own reader of prompt files needs pandas, which the engine does not bring.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest
from vllm.entrypoints.cli.main import main

_benchmark = serve.benchmark


def _count_cost(file: Path) -> None:
    async def counted(*arguments: Any, **named: Any) -> Any:
        cpu_ns, wall_ns = time.process_time_ns(), time.monotonic_ns()
        found = await _benchmark(*arguments, **named)
        cost = {
            "cpu_ns": time.process_time_ns() - cpu_ns,
            "wall_ns": time.monotonic_ns() - wall_ns,
        }
        file.write_text(json.dumps(cost), "utf-8")
        return found

    serve.benchmark = counted


def _give_prompts(file: Path, output_tokens: int) -> None:
    prompts = [json.loads(line)["prompt"] for line in file.read_text("utf-8").splitlines()]

    def samples(_arguments: Any, tokenizer: Any) -> list[Any]:
        return [
            SampleRequest(
                prompt=prompt,
                prompt_len=len(tokenizer(prompt).input_ids),
                expected_output_len=output_tokens,
                request_id=f"k3-{number}",
            )
            for number, prompt in enumerate(prompts)
        ]

    serve.get_samples = samples


if __name__ == "__main__":
    _give_prompts(Path(sys.argv[1]), int(sys.argv[3]))
    _count_cost(Path(sys.argv[2]))
    sys.argv = ["vllm", "bench", "serve", *sys.argv[4:]]
    main()

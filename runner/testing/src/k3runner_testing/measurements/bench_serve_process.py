"""Runs `vllm bench serve` again and again in the engine's environment, and says what each run cost.

Run by the engine's Python. Each line of standard input is a JSON object with `prompts` (a file of
JSON lines), `output_tokens`, `cost` (a file to write) and `arguments`; one line of standard output
says that it is done. One process for all runs, because its imports take longer than a run. Only the
benchmark itself is counted, from its first request to its last number. Its own reader of prompt
files needs pandas, which the engine does not bring, so prompts are handed to it.
"""

import contextlib
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
        cpu_ns = time.process_time_ns()
        found = await _benchmark(*arguments, **named)
        cost = {"cpu_ns": time.process_time_ns() - cpu_ns}
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


def _serve_runs() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        wanted = json.loads(line)
        _give_prompts(Path(wanted["prompts"]), wanted["output_tokens"])
        _count_cost(Path(wanted["cost"]))
        sys.argv = ["vllm", "bench", "serve", *wanted["arguments"]]
        # What it prints is for people; the answer is one line.
        with contextlib.redirect_stdout(sys.stderr):
            main()
        answers.write("done\n")
        answers.flush()


if __name__ == "__main__":
    _serve_runs()

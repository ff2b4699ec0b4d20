"""`python -m k3decode.layer_bench.stock_engine`: vLLM's own engine, asked by `versus_stock`.

It runs a text-only K3 of one rank's widths with dummy weights and its own choice of kernels. When
it is asked for a batch, it generates with so many requests, and stops inside a decode step whose
graph it just replayed; then that graph, with the inputs of that step, is replayed and timed by
events. The graph holds embedding, all layers and the last norm; scheduler, input copies, LM head
and sampler are outside. The engine's own pace, all of that included, is measured in the steps
before.
"""

import argparse
import importlib.metadata
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims
from k3decode.layer_bench.beside import captured
from k3decode.layer_bench.conversation import Answers
from k3decode.layer_bench.draws import drawn_experts
from k3decode.layer_bench.stock_attention import AttentionStep, stock_attention
from k3decode.layer_bench.stock_experts import MarlinExperts, engine_experts
from k3decode.layer_bench.stock_hooks import DrawnRouting, StepPause, as_a_rank, compile_only
from k3decode.layer_bench.stock_model import write_stock_model
from k3decode.replay_times import event_time_us

__all__ = ["StockEngine", "main"]

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
}
# Tokens of a prompt; the other tokens of the context are generated.
_PROMPT = 100
_STEPS_UNTIL_EVEN = 10
# Requests whose prompts were read earlier are ahead of others, and must not end before them.
_STEPS_TO_SPARE = 8
_MOST_TOKENS = 512
_CACHE_BYTES = 3 << 30
# Only a check at the start looks at it; the cache's size is given.
_MEMORY_FRACTION = 0.05


class StockEngine:
    """One engine of one depth."""

    def __init__(self, options: argparse.Namespace, answers: Answers) -> None:
        """Start it: dummy weights, graphs of all batches."""
        os.environ.update(_ENVIRONMENT)
        self._answers = answers
        self._batches: list[int] = options.batch
        self._steps: int = options.context - _PROMPT
        self._dims = shard_dims(K3Dims(), options.ranks)
        shape = (options.drawn_layers, max(self._batches), self._dims.num_experts_per_token)
        drawn = drawn_experts(options.draw, shape, self._dims.num_experts, options.seed)
        self._drawn = (drawn[0].cuda(), drawn[1].cuda())
        self._routing = DrawnRouting(*self._drawn, first_layer=self._dims.num_dense_layers)
        self._pause = StepPause(self._serve_step)
        self._rows = 0
        self._marlin: MarlinExperts | None = None
        compile_only(set(self._batches))
        as_a_rank()
        self._routing.install()
        self._pause.install()
        self._llm = self._start(options.depth)
        models: list[Any] = []
        self._llm.apply_model(models.append)
        self._model = models[0]

    def _start(self, depth: int) -> Any:
        from vllm import LLM  # noqa: PLC0415

        with tempfile.TemporaryDirectory() as name:
            write_stock_model(Path(name), self._dims, layers=depth, longest=_MOST_TOKENS)
            return LLM(
                model=name,
                skip_tokenizer_init=True,
                load_format="dummy",
                dtype="bfloat16",
                max_model_len=_MOST_TOKENS,
                max_num_seqs=max(self._batches),
                # All prompts of a batch are read in one step, so that all requests decode in step.
                max_num_batched_tokens=max(2048, max(self._batches) * _PROMPT),
                kv_cache_memory_bytes=_CACHE_BYTES,
                gpu_memory_utilization=_MEMORY_FRACTION,
                enable_prefix_caching=False,
                seed=0,
                compilation_config={
                    "cudagraph_capture_sizes": sorted(self._batches),
                    "cudagraph_mode": "FULL_DECODE_ONLY",
                },
            )

    def facts(self) -> dict[str, Any]:
        """Version and chosen kernels."""
        chosen: Counter[str] = Counter()
        for module in self._model.modules():
            for name in ("kda_decode_backend", "_projection_overlap_max_tokens"):
                if getattr(module, name, None) is not None:
                    chosen[f"{name}={getattr(module, name)}"] += 1
            if hasattr(module, "attn_backend") and hasattr(module, "prefill_backend"):
                chosen[f"mla={module.attn_backend.__name__}"] += 1
            method: Any = getattr(module, "quant_method", None)
            if method is not None and getattr(method, "mxfp4_backend", None) is not None:
                chosen[f"experts={method.mxfp4_backend.value} {method.experts_cls.__name__}"] += 1
            elif method is not None:
                chosen[f"{type(module).__name__}: {type(method).__name__}"] += 1
        return {
            "vllm": importlib.metadata.version("vllm"),
            "chosen": dict(sorted(chosen.items())),
            "layers_that_route": len(self._routing.layers),
            "memory_gb": round(torch.cuda.memory_allocated() / 1e9, 1),
        }

    def step(self, rows: int) -> None:
        """Generate with so many requests; the step's graph is timed inside."""
        from vllm import SamplingParams  # noqa: PLC0415

        vocabulary = self._dims.vocab_size
        prompts = [
            {"prompt_token_ids": [(7 + 13 * i + 29 * j) % vocabulary for j in range(_PROMPT)]}
            for i in range(rows)
        ]
        sampling = SamplingParams(
            temperature=1.0,
            max_tokens=self._steps + _STEPS_TO_SPARE,
            ignore_eos=True,
            detokenize=False,
        )
        self._rows = rows
        self._routing.watch()
        self._pause.wait_for(rows, self._steps)
        self._llm.generate(prompts, sampling, use_tqdm=False)
        if self._rows:
            self._answers.say(
                error=f"expected {self._steps} replays of a graph of {rows} rows, found fewer"
            )
            self._rows = 0
        else:
            self._answers.say(released=True)

    def _serve_step(self, graph: torch.cuda.CUDAGraph, between_s: list[float]) -> None:
        rows, self._rows = self._rows, 0
        self._answers.say(
            prepared=rows,
            engine_step_us=1e6 * statistics.fmean(between_s[_STEPS_UNTIL_EVEN:]),
            own_experts=self._routing.own_choice(rows, _PROMPT),
        )
        self._serve_times(graph.replay)

    def _serve_times(self, replay: Callable[[], None]) -> None:
        for question in self._answers.questions():
            if question["do"] == "release":
                return
            if question["do"] == "own_choice":
                self._answers.say(experts=self._routing.kept_choice())
                continue
            if question["do"] == "draw":
                self._routing.draw(torch.tensor(question["experts"]))
                self._answers.say(drawn=True)
                continue
            if question["do"] == "own":
                with self._routing.own_in_place() as known:
                    self._answers.say(us=_times(replay, question) if known else None)
                continue
            self._answers.say(us=_times(replay, question))

    def graph(self, question: dict[str, Any]) -> None:
        """Capture routed experts or attention alone, and time it as often as is asked."""
        launches = self._experts if question["do"] == "experts" else self._attention
        with torch.inference_mode():
            graph = captured(launches(question))
            self._answers.say(prepared=question["rows"])
            self._serve_times(graph.replay)
        self._answers.say(released=True)

    def _experts(self, question: dict[str, Any]) -> list[Callable[[], None]]:
        """Of the first layers, on the draws of those layers."""
        rows, layers = question["rows"], question["layers"]
        first = self._dims.num_dense_layers
        experts, shares = (one[first : first + layers, :rows].contiguous() for one in self._drawn)
        latent = torch.randn(rows, self._dims.latent_size, device="cuda").to(torch.bfloat16)
        if question["backend"] == "engine":
            config = self._llm.llm_engine.vllm_config
            return engine_experts(self._model, config, latent, experts, shares)
        if self._marlin is None:
            self._marlin = MarlinExperts(self._dims, layers)
        return self._marlin.launches(latent, experts, shares)

    def _attention(self, question: dict[str, Any]) -> list[Callable[[], None]]:
        names = ("rows", "context", "page_tokens", "copies")
        step = AttentionStep(**{name: question[name] for name in names})
        return stock_attention(question["backend"], self._dims, step)


def _times(replay: Callable[[], None], question: dict[str, Any]) -> list[float]:
    for _ in range(question["warm_up"]):
        replay()
    return [event_time_us(replay) for _ in range(question["replays"])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.layer_bench.stock_engine", description=__doc__
    )
    parser.add_argument("--ranks", type=int, required=True, help="widths of one of so many")
    parser.add_argument("--depth", type=int, required=True, help="layers")
    parser.add_argument("--batch", type=int, nargs="+", required=True, help="rows")
    parser.add_argument("--context", type=int, required=True, help="tokens of each request")
    parser.add_argument("--draw", required=True, help="who chose experts")
    parser.add_argument("--drawn-layers", type=int, required=True, help="layers of the draw")
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args(arguments)
    answers = Answers()
    engine = StockEngine(options, answers)
    answers.say(ready=engine.facts())
    for question in answers.questions():
        try:
            if question["do"] == "step":
                engine.step(question["rows"])
            else:
                engine.graph(question)
        except Exception as error:
            # Whatever it is, the other side must hear it.
            answers.say(error=f"{type(error).__name__}: {error}"[:400])
    return 0


if __name__ == "__main__":
    sys.exit(main())

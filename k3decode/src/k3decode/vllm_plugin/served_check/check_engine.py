"""One engine that has both paths: stock's graphs and ours of the same weights and state.

It is vLLM's own engine in this process, with the plugin. Stock is what the plugin's class inherits;
its captured steps have one kernel more, which counts them. KDA's input projection of stock is
arranged as on a rank of eight (`layer_bench.stock_hooks.as_a_rank`), which makes stock faster.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.coverage import PathName
from k3decode.dims import K3Dims
from k3decode.layer_bench.stock_hooks import as_a_rank, compile_only
from k3decode.vllm_plugin.served_check.small_model import (
    LOUD_TOKENS,
    seeded_tensors,
    write_check_model,
)

__all__ = ["CheckEngine", "EngineRequest"]

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_LOAD_FORMAT = "k3decode_seeded"
_LONGEST = 1024
_CACHE_BYTES = 4 << 30
# More than all scores differ by, so that no rounding decides about experts.
_DECIDING_BIAS = 4.0
_BIAS_STEP = 37
# Only a check at the start looks at it; the cache's size is given.
_MEMORY_FRACTION = 0.05
_EXTENSION = "k3decode.vllm_plugin.worker_extension.K3DecodeWorkerExtension"


@dataclass(frozen=True)
class EngineRequest:
    """What to start."""

    dims: K3Dims
    batches: tuple[int, ...]
    """Rows of captured steps."""
    seed: int
    prompt_tokens: int
    """Most tokens of a prompt."""
    moe_backend: str
    """The engine's choice of expert kernels, `auto` for its own."""
    stock_first: bool
    """Whether the engine starts with stock's graphs, and ours are captured later."""


class CheckEngine:
    """The engine and its graphs."""

    def __init__(self, request: EngineRequest) -> None:
        """Start it; the weights are random, of the request's seed."""
        os.environ.update(_ENVIRONMENT)
        self.request = request
        self._llm = self._start()
        models: list[Any] = []
        self._llm.apply_model(models.append)
        self.model = models[0]
        self._runner = self._llm.llm_engine.model_executor.driver_worker.worker.model_runner
        self._biases = [
            (one.mlp.gate.e_score_correction_bias.data, number)
            for number, one in enumerate(self.model.model.layers)
            if one.is_moe_layer
        ]
        self._own_biases = [bias.clone() for bias, _ in self._biases]
        first: PathName = "stock" if request.stock_first else "candidate"
        self._graphs: dict[PathName, Any] = {first: dict(self._manager.graphs)}

    @property
    def _manager(self) -> Any:
        return self._runner.cudagraph_manager

    def _start(self) -> Any:
        from vllm import LLM  # noqa: PLC0415

        from k3decode.vllm_plugin.gpu.served_decode import ServedDecode  # noqa: PLC0415

        request, batches = self.request, sorted(self.request.batches)
        ServedDecode.enabled_at_start = not request.stock_first
        _register_loader(request.dims, request.seed)
        compile_only(set(batches))
        as_a_rank()
        with tempfile.TemporaryDirectory() as name:
            write_check_model(Path(name), request.dims, longest=_LONGEST)
            return LLM(
                model=name,
                skip_tokenizer_init=True,
                load_format=_LOAD_FORMAT,
                dtype="bfloat16",
                max_model_len=_LONGEST,
                max_num_seqs=max(batches),
                # All prompts of a batch are read in one step, so that all requests decode in step.
                max_num_batched_tokens=max(2048, max(batches) * request.prompt_tokens),
                kv_cache_memory_bytes=_CACHE_BYTES,
                gpu_memory_utilization=_MEMORY_FRACTION,
                enable_prefix_caching=False,
                seed=0,
                worker_extension_cls=_EXTENSION,
                additional_config={"k3decode": {"decode_backend": "candidate"}},
                compilation_config={
                    "cudagraph_capture_sizes": batches,
                    "cudagraph_mode": "FULL_DECODE_ONLY",
                },
                **({} if request.moe_backend == "auto" else {"moe_backend": request.moe_backend}),
            )

    def use(self, path: PathName, *, graphs: bool) -> None:
        """Serve decode steps by a path, from its captured graphs or one kernel at a time."""
        self.model.served.enabled = path == "candidate"
        if graphs and path not in self._graphs:
            self._capture(path)
        self._manager.graphs = self._graphs.get(path, {})
        self._manager._graphs_captured = graphs

    def _capture(self, path: PathName) -> None:
        """Capture a path's steps as the engine does at its start."""
        self._manager.graphs = {}
        self._runner.capture_model()
        self._graphs[path] = self._manager.graphs

    def decide_routing(self, *, by_bias: bool) -> None:
        """Let a bias choose the same experts for every token, or scores and their rounding.

        Both paths read the same bias, and captured steps read it anew. With random weights scores
        lie so close together that rounding chooses another expert for every few tokens, which then
        hides everything else.
        """
        top = self.request.dims.num_experts_per_token
        with torch.inference_mode():
            for (bias, number), own in zip(self._biases, self._own_biases, strict=True):
                bias.copy_(own)
                if by_bias:
                    places = torch.arange(top, device=bias.device) * _BIAS_STEP + number
                    bias[places % len(bias)] += _DECIDING_BIAS

    @contextmanager
    def loud_rows(self) -> Iterator[Tensor]:
        """The LM head's loud rows, BF16 [2, D], to be overwritten; they come back at the end."""
        rows: Tensor = self.model.lm_head.weight.data[LOUD_TOKENS[0] : LOUD_TOKENS[-1] + 1]
        before = rows.clone()
        try:
            yield rows
        finally:
            with torch.inference_mode():
                rows.copy_(before)

    def draw_tokens(self, rows: int) -> None:
        """Put random tokens where a captured step finds them, so that rows choose other experts."""
        with torch.inference_mode():
            ids = self._runner.input_buffers.input_ids[:rows]
            ids.random_(0, self.request.dims.vocab_size)

    def graph(self, path: PathName, rows: int) -> torch.cuda.CUDAGraph:
        """Captured step of so many rows."""
        return next(one for desc, one in self._graphs[path].items() if desc.num_tokens == rows)

    def generate(
        self, prompts: Sequence[Sequence[int]], tokens: int, *, greedy: bool = True
    ) -> list[list[int]]:
        """Continuations of so many tokens each: greedy, or nearly uniform but for loud tokens."""
        from vllm import SamplingParams  # noqa: PLC0415

        sampling = SamplingParams(
            temperature=0.0 if greedy else 1.0,
            logit_bias=None if greedy else dict.fromkeys(LOUD_TOKENS, -100.0),
            max_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
        )
        asked = [{"prompt_token_ids": list(one)} for one in prompts]
        answers = self._llm.generate(asked, sampling, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in answers]

    def coverage(self) -> str:
        """What the worker extension says, as JSON text."""
        text: str = self._llm.collective_rpc("k3decode_coverage")[0]
        return text


def _register_loader(dims: K3Dims, seed: int) -> None:
    """A format of weights that come from a seed; the engine loads them under their names."""
    from vllm.model_executor.model_loader import register_model_loader  # noqa: PLC0415
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader  # noqa: PLC0415

    class SeededLoader(BaseModelLoader):  # type: ignore[misc]  # untyped engine
        """Weights from a seed."""

        def __init__(self, load_config: Any) -> None:
            super().__init__(load_config)

        def download_model(self, model_config: Any) -> None:
            """Nothing to fetch."""

        def load_weights(self, model: Any, model_config: Any) -> None:  # noqa: ARG002
            """Load by the model's own method."""
            model.load_weights(seeded_tensors(dims, seed, torch.device("cuda")))

    register_model_loader(_LOAD_FORMAT)(SeededLoader)

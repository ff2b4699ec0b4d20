"""What a measurement changes in vLLM 0.33.0 before its engine starts: four places, named here.

Nothing of it adds a kernel to a step. Imports of vLLM are inside functions: only a process that
holds the engine needs it.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["DrawnRouting", "StepPause", "as_a_rank", "compile_only"]


def as_a_rank() -> None:
    """Let KDA's input projection be arranged as on a rank of eight that has FlashInfer.

    vLLM splits it over two streams only if the engine has eight ranks; this one has the widths of
    a rank of eight. It does so up to 14 rows at the end of FlashInfer's tuning, and without
    FlashInfer up to 2; on Hopper that end of the tuning uses nothing of FlashInfer.
    """
    from vllm.models.kimi_k3.nvidia import low_latency_gemm  # noqa: PLC0415

    enable: Callable[[Any], bool] = low_latency_gemm._enable_kda_projection_overlap

    def enable_up_to_all(model: Any) -> bool:
        enabled = enable(model)
        low_latency_gemm.autotune_kda_qkvg(model)
        return enabled

    low_latency_gemm._KDA_TP_SIZE = 1
    low_latency_gemm._enable_kda_projection_overlap = enable_up_to_all


def compile_only(batches: set[int]) -> None:
    """Compile CuTe kernels ahead only for batches that are captured, not for all up to 16 rows."""
    from vllm.model_executor.kernels.linear.cute_dsl.skinny_gemm import (  # noqa: PLC0415
        shape_dynamic_skinny_gemm,
    )
    from vllm.model_executor.warmup import kernel_warmup  # noqa: PLC0415
    from vllm.models.kimi_k3.nvidia.ops.cute_dsl.kda_skinny_gemm import (  # noqa: PLC0415
        kda_skinny_gemm,
    )

    kernel_warmup._LL_BF16_WARMUP_M_RANGE = sorted(
        batches.intersection(kernel_warmup._LL_BF16_WARMUP_M_RANGE)
    )
    for_kda, for_all = kda_skinny_gemm.request_warmup, shape_dynamic_skinny_gemm

    def request_kda(n_tokens: set[int], k_tokens: set[int]) -> None:
        for_kda(n_tokens & batches, k_tokens & batches)

    def request_skinny(dtype: torch.dtype, configs: Any, **more: Any) -> None:
        wanted = {config for config in configs if config.num_rows in batches}
        request_all(dtype, wanted, **more)

    request_all = for_all.request_warmup_configs
    kda_skinny_gemm.request_warmup = request_kda
    for_all.request_warmup_configs = request_skinny


class DrawnRouting:
    """Gives experts a drawn choice instead of the router's, which is made all the same.

    Steps of more rows than were drawn keep the router's choice.
    """

    def __init__(self, experts: Tensor, shares: Tensor, *, first_layer: int) -> None:
        """Keep the draws; graphs will hold their addresses.

        Args:
            experts: int32 [layers, rows, k], on the engine's device.
            shares: FP32, of the same shape.
            first_layer: number of the first layer that routes; it is the first whose router runs.
        """
        self._experts = {torch.int32: experts}
        self._shares = shares
        self._first = first_layer
        self._numbers: dict[int, int] = {}
        self._kept: dict[int, Tensor] = {}
        self._watching = False

    def install(self) -> None:
        """Take the place of every router's choice."""
        from vllm.model_executor.layers.fused_moe.router.base_router import (  # noqa: PLC0415
            BaseRouter,
        )

        routed: Callable[..., tuple[Tensor, Tensor]] = BaseRouter._select_experts

        def select(router: Any, *arguments: Any, **named: Any) -> tuple[Tensor, Tensor]:
            shares, experts = routed(router, *arguments, **named)
            return self._choice(id(router), shares, experts)

        BaseRouter._select_experts = select

    def _choice(self, router: int, shares: Tensor, experts: Tensor) -> tuple[Tensor, Tensor]:
        number = self._numbers.setdefault(router, self._first + len(self._numbers))
        rows = experts.shape[0]
        if rows > self._shares.shape[1]:
            if self._watching:
                self._kept[number] = experts.clone()
            return shares, experts
        if experts.dtype not in self._experts:
            # The first call is a dry run: nothing is captured yet.
            self._experts[experts.dtype] = self._experts[torch.int32].to(experts.dtype)
        if shares.dtype != self._shares.dtype:
            raise TypeError(f"expected shares of {self._shares.dtype}, found {shares.dtype}")
        return self._shares[number, :rows], self._experts[experts.dtype][number, :rows]

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers whose routers ran."""
        return tuple(sorted(self._numbers.values()))

    def watch(self) -> None:
        """Keep what routers choose in the next prompt step."""
        self._kept, self._watching = {}, True

    def own_choice(self, prompts: int, tokens: int) -> float | None:
        """Distinct experts that the routers themselves chose for the last tokens of the prompts.

        Args:
            prompts: how many; they lie one after the other.
            tokens: of each.

        Returns:
            A mean over layers; None if the last prompt step did not have all prompts.
        """
        self._watching = False
        whole = all(len(experts) == prompts * tokens for experts in self._kept.values())
        self._kept = {
            number: experts.view(prompts, tokens, -1)[:, -1]
            for number, experts in self._kept.items()
            if whole
        }
        if not self._kept:
            return None
        return statistics.fmean(int(one.unique().numel()) for one in self._kept.values())

    def kept_choice(self) -> dict[int, list[list[int]]] | None:
        """What `own_choice` counted, by layer and row; None if that is nothing."""
        return {number: own.tolist() for number, own in self._kept.items()} or None

    def draw(self, experts: Tensor) -> None:
        """Let steps that were captured take other choices, int [layers or more, rows, k]."""
        for kept in self._experts.values():
            kept[: len(experts), : experts.shape[1]].copy_(experts[: len(kept)])

    @contextmanager
    def own_in_place(self) -> Iterator[bool]:
        """Steps take what `own_choice` counted in place of the draw; False if that is nothing."""
        drawn = {kind: experts.clone() for kind, experts in self._experts.items()}
        for number, own in self._kept.items():
            for experts in self._experts.values():
                experts[number, : len(own)].copy_(own)
        yield bool(self._kept)
        for kind, experts in drawn.items():
            self._experts[kind].copy_(experts)


class StepPause:
    """Stops the engine inside a decode step, when its graph was just replayed."""

    def __init__(self, paused: Callable[[torch.cuda.CUDAGraph, list[float]], None]) -> None:
        """Say what happens there.

        Args:
            paused: called with the step's graph and the seconds from step to step before it.
        """
        self._paused = paused
        self._rows = 0
        self._left = 0
        self._stamps: list[float] = []

    def install(self) -> None:
        """Watch every replay of a captured step."""
        from vllm.v1.worker.gpu.cudagraph_utils import ModelCudaGraphManager  # noqa: PLC0415

        replay: Callable[..., Any] = ModelCudaGraphManager.run_fullgraph

        def run(manager: Any, desc: Any) -> Any:
            found = replay(manager, desc)
            self._replayed(manager.graphs[desc], int(desc.num_tokens))
            return found

        ModelCudaGraphManager.run_fullgraph = run

    def wait_for(self, rows: int, steps: int) -> None:
        """Stop in the last of so many steps of so many rows."""
        self._rows, self._left, self._stamps = rows, steps, []

    def _replayed(self, graph: torch.cuda.CUDAGraph, rows: int) -> None:
        if rows != self._rows or not self._left:
            return
        self._stamps.append(time.perf_counter())
        self._left -= 1
        if not self._left:
            torch.cuda.synchronize()
            between = [b - a for a, b in zip(self._stamps, self._stamps[1:], strict=False)]
            self._paused(graph, between)

"""What a measurement changes in the other engine, on stand-ins of the places that it changes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from k3decode.layer_bench.stock_hooks import DrawnRouting, StepPause, as_a_rank, compile_only

Place = Callable[[str, dict[str, Any]], ModuleType]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Puts a module where an import finds it, for this test."""

    placed: dict[str, ModuleType] = {}

    def at(name: str) -> ModuleType:
        if name not in placed:
            placed[name] = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, placed[name])
            above, _, last = name.rpartition(".")
            if above:
                setattr(at(above), last, placed[name])
        return placed[name]

    def put(name: str, content: dict[str, Any]) -> ModuleType:
        module = at(name)
        vars(module).update(content)
        return module

    return put


def _routers(place: Place, experts: torch.Tensor) -> Any:
    class BaseRouter:
        calls = 0

        def _select_experts(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
            type(self).calls += 1
            chosen = experts[:rows]
            return torch.full(chosen.shape, 0.5), chosen

    name = "vllm.model_executor.layers.fused_moe.router.base_router"
    place(name, {"BaseRouter": BaseRouter})
    return BaseRouter


def test_each_layer_gets_its_own_draw_and_its_router_runs_all_the_same(place: Place) -> None:
    kind = _routers(place, torch.zeros(64, 2, dtype=torch.int64))
    drawn = torch.arange(3 * 4 * 2, dtype=torch.int32).view(3, 4, 2)
    routing = DrawnRouting(drawn, torch.full((3, 4, 2), 0.25), first_layer=1)
    routing.install()
    first, second = kind(), kind()
    for router, number in ((first, 1), (second, 2), (first, 1)):
        shares, experts = router._select_experts(3)
        assert experts.dtype == torch.int64
        assert experts.tolist() == drawn[number, :3].tolist()
        assert shares.tolist() == [[0.25, 0.25]] * 3
    assert kind.calls == 3
    assert routing.layers == (1, 2)


def test_prompts_keep_the_routers_choice_which_is_counted(place: Place) -> None:
    chosen = torch.tensor([[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 6]])
    kind = _routers(place, chosen)
    routing = DrawnRouting(
        torch.zeros(2, 4, 2, dtype=torch.int32), torch.ones(2, 4, 2), first_layer=1
    )
    routing.install()
    assert routing.own_choice(2, 3) is None
    routing.watch()
    _, experts = kind()._select_experts(6)
    assert experts.tolist() == chosen.tolist()
    assert routing.own_choice(2, 3) == 3.0
    router = kind()
    routing.watch()
    router._select_experts(6)
    assert routing.own_choice(2, 2) is None
    with routing.own_in_place() as known:
        assert not known


def test_steps_can_take_the_routers_own_choice_for_a_while(place: Place) -> None:
    kind = _routers(place, torch.tensor([[9, 9], [1, 2], [9, 9], [3, 4]]))
    drawn = torch.tensor([[[0, 0]] * 3, [[5, 6], [7, 8], [5, 8]]], dtype=torch.int32)
    routing = DrawnRouting(drawn, torch.ones(2, 3, 2), first_layer=1)
    routing.install()
    routing.watch()
    router = kind()
    router._select_experts(4)
    assert routing.own_choice(2, 2) == 4.0
    _, step = router._select_experts(2)
    assert step.tolist() == [[5, 6], [7, 8]]
    with routing.own_in_place() as known:
        assert known
        assert step.tolist() == [[1, 2], [3, 4]]
    assert step.tolist() == [[5, 6], [7, 8]]
    assert routing.kept_choice() == {1: [[1, 2], [3, 4]]}
    # More layers than it has: another engine is deeper.
    routing.draw(torch.tensor([[[0, 0]] * 2, [[4, 3], [2, 1]], [[9, 9]] * 2]))
    assert step.tolist() == [[4, 3], [2, 1]]


@dataclass(frozen=True)
class _Config:
    num_rows: int


@dataclass(frozen=True)
class _Step:
    num_tokens: int


def test_the_last_step_of_a_batch_stops_with_its_graph(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    class ModelCudaGraphManager:
        def __init__(self) -> None:
            self.graphs = {_Step(2): "graph of two", _Step(3): "graph of three"}

        def run_fullgraph(self, desc: _Step) -> str:
            return f"rows {desc.num_tokens}"

    name = "vllm.v1.worker.gpu.cudagraph_utils"
    place(name, {"ModelCudaGraphManager": ModelCudaGraphManager})
    seen: list[tuple[Any, int]] = []
    pause = StepPause(lambda graph, between: seen.append((graph, len(between))))
    pause.install()
    manager = ModelCudaGraphManager()
    pause.wait_for(2, 3)
    for rows in (2, 3, 2, 3, 3, 2, 2):
        assert manager.run_fullgraph(_Step(rows)) == f"rows {rows}"
    assert seen == [("graph of two", 2)]


def test_only_captured_batches_are_compiled_ahead(place: Place) -> None:
    asked: list[Any] = []
    warmup = place(
        "vllm.model_executor.warmup.kernel_warmup", {"_LL_BF16_WARMUP_M_RANGE": range(1, 17)}
    )
    kda = SimpleNamespace(request_warmup=lambda n, k: asked.append((n, k)))
    skinny = SimpleNamespace(
        request_warmup_configs=lambda dtype, configs, **more: asked.append(
            (dtype, {one.num_rows for one in configs}, more)
        )
    )
    sources = "vllm.model_executor.kernels.linear.cute_dsl.skinny_gemm"
    place(sources, {"shape_dynamic_skinny_gemm": skinny})
    place("vllm.models.kimi_k3.nvidia.ops.cute_dsl.kda_skinny_gemm", {"kda_skinny_gemm": kda})
    compile_only({1, 4, 64})
    assert vars(warmup)["_LL_BF16_WARMUP_M_RANGE"] == [1, 4]
    kda.request_warmup({2, 3, 4}, {4, 5})
    skinny.request_warmup_configs("bf16", [_Config(1), _Config(2)], a=True)
    assert asked == [({4}, {4}), ("bf16", {1}, {"a": True})]


def test_one_engine_arranges_kda_as_a_rank_of_eight(place: Place) -> None:
    done: list[str] = []

    def enable(model: str) -> bool:
        done.append(f"enable {model}")
        return True

    content = {
        "_KDA_TP_SIZE": 8,
        "_enable_kda_projection_overlap": enable,
        "autotune_kda_qkvg": lambda model: done.append(f"up to all rows {model}"),
    }
    module = vars(place("vllm.models.kimi_k3.nvidia.low_latency_gemm", content))
    as_a_rank()
    assert module["_KDA_TP_SIZE"] == 1
    assert module["_enable_kda_projection_overlap"]("model") is True
    assert done == ["enable model", "up to all rows model"]

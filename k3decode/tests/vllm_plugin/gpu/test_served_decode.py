"""A step inside the engine gives what the executor gives, though each layer has other pages."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, allocate_state
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_weights import DecodeLayer, ModelEnds
from k3decode.decode.packing import ExpertBytes, pack_layer
from k3decode.decode.random_weights import random_ends, random_layer
from k3decode.decode.whole_check import begin_step
from k3decode.ops.experts.packing import PackedExperts
from k3decode.vllm_plugin.gpu import served_launches
from k3decode.vllm_plugin.gpu.engine_experts import pack_before_reordering
from k3decode.vllm_plugin.gpu.engine_state import AttentionLayer
from k3decode.vllm_plugin.gpu.engine_weights import engine_layer
from k3decode.vllm_plugin.gpu.served_decode import ServedDecode

from ...decode.executor_on_cpu import CPU, DIMS, torch_ops  # noqa: TID252
from ...ops import torch_launches  # noqa: TID252
from .fake_engine import decoder_layer, kda_metadata, mla_metadata, routed_experts

__all__ = ["torch_ops"]

LAYERS, ROWS, LIVE, CONTEXT = 3, 3, 2, 70
SMALL = replace(DIMS, num_hidden_layers=LAYERS, mla_period=LAYERS, num_experts=4)
_Drawn = tuple[dict[str, Tensor], ExpertBytes | None]


@cache
def _drawn(number: int) -> _Drawn:
    tensors, experts = random_layer(SMALL, number, 0, CPU)
    # The engine keeps this norm in BF16.
    if (norm := tensors.get("self_attn.o_norm.weight")) is not None:
        norm.copy_(norm.to(torch.bfloat16))
    return tensors, experts


@cache
def _packed(number: int) -> DecodeLayer:
    return pack_layer(*_drawn(number), SMALL, number)


@cache
def _packed_by_the_engine(number: int) -> PackedExperts | None:
    experts = _drawn(number)[1]
    if experts is None:
        return None
    kept: list[PackedExperts] = []
    module = routed_experts(experts)
    pack_before_reordering(module, SMALL, number, kept.append)
    module.quant_method.process_weights_after_loading(module)
    assert not bool(module.w2_weight.any())
    return kept[0]


class _Engine:
    """Three layers as the engine holds them; KDA layers have pages in orders of their own."""

    def __init__(self) -> None:
        self.dims, batch = SMALL, Batch(tokens=1, requests=ROWS)
        self.ends = random_ends(SMALL, 0, CPU)
        layers = [_packed(number) for number in range(LAYERS)]
        state = allocate_state(SMALL, range(LAYERS), batch, CPU, context=CONTEXT)
        self.executor = DecodeExecutor(SMALL, layers, state, ends=self.ends)
        begin_step(self.executor, batch, context=CONTEXT, live=LIVE, seed=1)
        self.modules = [decoder_layer(_drawn(n)[0], SMALL, n) for n in range(LAYERS)]
        self.metadata: dict[str, SimpleNamespace] = {}
        self.slots: dict[str, Tensor] = {}
        for number, module in enumerate(self.modules):
            self._place(module.self_attn, number, state)

    def _place(self, attention: SimpleNamespace, number: int, state: DecodeState) -> None:
        if number in state.mla_pages:
            attention.kv_cache = state.mla_pages[number].clone()
            self.metadata[attention.layer_name] = mla_metadata(state.table, state.lengths)
            self.slots[attention.layer_name] = state.cache_slots
            return
        turn = torch.tensor([0, *torch.roll(torch.arange(1, ROWS + 1), number).tolist()])
        taps, memory = (torch.empty_like(one[number]) for one in (state.kda_taps, state.kda_memory))
        taps[turn], memory[turn] = state.kda_taps[number], state.kda_memory[number]
        attention.kv_cache = [taps, memory]
        pages = turn[state.kda_slots[:, 0].long()].to(torch.int32)
        self.metadata[attention.prefix] = kda_metadata(pages)

    def served(self, prepared: frozenset[int]) -> ServedDecode:
        weights = [
            engine_layer(module, number, _packed_by_the_engine(number), SMALL).layer
            for number, module in enumerate(self.modules)
        ]
        attention = [AttentionLayer(n, one.self_attn) for n, one in enumerate(self.modules)]
        ends = ModelEnds(self.ends.embedding, self.ends.final, self.ends.lm_head)
        return ServedDecode(SMALL, weights, ends, attention, prepared=prepared)


@pytest.fixture
def engine(torch_ops: None, monkeypatch: pytest.MonkeyPatch) -> _Engine:
    del torch_ops
    monkeypatch.setattr(served_launches, "attn_res", torch_launches.attn_res)
    return _Engine()


def test_a_step_gives_what_the_executor_gives(engine: _Engine) -> None:
    served = engine.served(frozenset({ROWS}))
    rows = engine.executor.buffers
    found = served.serve(rows.tokens[:ROWS], ROWS, engine.metadata, engine.slots, piecewise=False)
    for launch in engine.executor.launches(Batch(tokens=1, requests=ROWS)):
        launch.run()
    assert found is not None
    mixed = found.float()
    normed = mixed * torch.rsqrt(mixed.square().mean(-1, keepdim=True) + engine.dims.rms_norm_eps)
    wanted = rows.hidden[:ROWS].float()
    found_rows = normed * engine.ends.final.output_norm.float()
    assert torch.allclose(found_rows[:LIVE], wanted[:LIVE], rtol=0.02, atol=0.02)
    state = engine.executor.state
    for number, module in enumerate(engine.modules):
        cache = module.self_attn.kv_cache
        if number in state.mla_pages:
            assert torch.equal(cache, state.mla_pages[number])
            continue
        pages = engine.metadata[module.self_attn.prefix].non_spec_state_indices_tensor[:LIVE]
        own = state.kda_slots[:LIVE, 0].long()
        assert torch.equal(cache[0][pages.long()], state.kda_taps[number][own])
        assert torch.equal(cache[1][pages.long()], state.kda_memory[number][own])


def test_steps_are_counted_by_path_and_kind(engine: _Engine) -> None:
    served = engine.served(frozenset({ROWS}))
    tokens = engine.executor.buffers.tokens[:ROWS]
    served.serve(tokens, ROWS, engine.metadata, engine.slots, piecewise=False)
    prompt = {
        name: kda_metadata(torch.ones(ROWS, dtype=torch.int32), prompts=1)
        if hasattr(one, "non_spec_state_indices_tensor")
        else one
        for name, one in engine.metadata.items()
    }
    assert served.serve(tokens, ROWS, prompt, engine.slots, piecewise=False) is None
    assert served.serve(tokens, ROWS, None, None, piecewise=False) is None
    found = {(one.path, one.kind, one.rows): one.count for one in served.counts.read()}
    assert found == {
        ("candidate", "decode", ROWS): 1,
        ("stock", "mixed", ROWS): 1,
        ("stock", "dummy", ROWS): 1,
    }
    served.begin()
    assert served.counts.read() == ()
    served.serve(None, ROWS, engine.metadata, engine.slots, piecewise=False)
    served.begin()
    assert [one.count for one in served.counts.read()] == [1]


def test_only_prepared_numbers_of_rows_are_served(engine: _Engine) -> None:
    served = engine.served(frozenset({1, 200}))
    tokens = engine.executor.buffers.tokens[:ROWS]
    assert served.serve(tokens, ROWS, engine.metadata, engine.slots, piecewise=False) is None
    assert served.reasons["decode", ROWS] == "no batch of as many rows was prepared"
    assert served.prepared == {1}


def test_a_path_that_is_turned_off_serves_nothing(engine: _Engine) -> None:
    served = engine.served(frozenset({ROWS}))
    served.enabled = False
    tokens = engine.executor.buffers.tokens[:ROWS]
    assert served.serve(tokens, ROWS, engine.metadata, engine.slots, piecewise=False) is None
    assert served.reasons["decode", ROWS] == "the path is turned off"


def test_slots_that_are_missing_are_a_sentence(engine: _Engine) -> None:
    served = engine.served(frozenset({ROWS}))
    tokens = engine.executor.buffers.tokens[:ROWS]
    with pytest.raises(ValueError, match=r"expected the step's slots under model\.layers\.2"):
        served.serve(tokens, ROWS, engine.metadata, {}, piecewise=False)


def test_a_step_is_described_line_by_line(engine: _Engine) -> None:
    served = engine.served(frozenset({ROWS}))
    lines = served.describe(engine.metadata, engine.slots)
    assert any(line.startswith("layer 0 kv_cache1 [4, 2, 128, 128] strides") for line in lines)
    assert any(line.startswith("layer 2 decode.block_table [3, 2] strides") for line in lines)
    assert "layer 0 num_prefills 0" in lines
    assert served.describe(None, None)[-1] == "layer 2 decode. None"

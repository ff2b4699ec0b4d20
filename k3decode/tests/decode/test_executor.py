"""The executor's wiring, without a GPU: which launch gets which memory."""

from dataclasses import replace

import pytest
import torch

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import allocate_state
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_check import Stream, _stored, judge_choice
from k3decode.decode.layer_reference import LayerInputs, LayerReference
from k3decode.decode.packing import pack_layer
from k3decode.decode.placed_state import carried, place_state
from k3decode.decode.random_weights import random_ends, random_layer
from k3decode.decode.whole_check import begin_step
from k3decode.tolerance import judge_close

from .executor_on_cpu import CPU, DIMS, torch_ops

__all__ = ["torch_ops"]

REQUESTS, STEPS = 2, 3


def _inputs(number: int, stream: Stream, state: LayerInputs | None, step: int) -> LayerInputs:
    rows = stream.prefix[step]
    if state is None:
        heads, width = DIMS.num_attention_heads, DIMS.kda_head_dim
        state = LayerInputs(rows, None, stream.blocks[:, step])
        if DIMS.is_mla(number):
            state = replace(state, cache=rows.new_zeros(REQUESTS, 0, DIMS.mla_row))
        else:
            state = replace(
                state,
                taps=rows.new_zeros(REQUESTS, 3, 3 * DIMS.kda_width),
                memory=torch.zeros(REQUESTS, heads, width, width),
            )
    pending = None if number == 0 else torch.roll(rows, 1, dims=-1)
    return replace(state, prefix=rows, pending=pending, blocks=stream.blocks[:, step])


@pytest.mark.parametrize("number", [0, 1, 3, 6])
@pytest.mark.usefixtures("torch_ops")
def test_a_layer_gives_what_its_reference_gives(number: int) -> None:
    """Dense KDA at a block start, KDA with MoE, MLA with MoE at a block start, KDA at one."""
    stream = Stream.embedded(DIMS, tokens=STEPS, requests=REQUESTS, seed=number, device=CPU)
    blocks = torch.randn(-(-number // 3), STEPS, REQUESTS, 256).to(torch.bfloat16)
    stream = replace(stream, blocks=blocks)
    tensors, experts = random_layer(DIMS, number, 0, CPU)
    batch = Batch(tokens=1, requests=REQUESTS)
    state = allocate_state(DIMS, range(number, number + 1), batch, CPU, context=STEPS)
    executor = DecodeExecutor(DIMS, [pack_layer(tensors, experts, DIMS, number)], state)
    exact, rounded = (
        LayerReference(DIMS, number, tensors, experts, rounded=rounded) for rounded in (False, True)
    )
    state_after = None
    for step in range(STEPS):
        inputs = _inputs(number, stream, state_after, step)
        rows = executor.buffers
        rows.prefix.copy_(inputs.prefix)
        if inputs.pending is not None:
            rows.pending.copy_(inputs.pending)
        rows.blocks[: len(blocks)].copy_(inputs.blocks)
        place_state(state, number, inputs, batch, 1)
        for launch in executor.launches(batch):
            launch.run()
        chosen = rows.experts[0].long() if experts is not None else None
        wanted, near = exact.apply(inputs, chosen), rounded.apply(inputs, chosen)
        for name in ("prefix", "attended", "hidden", "pending"):
            judged = judge_close(
                name,
                getattr(rows, name),
                reference=getattr(wanted, name),
                same_dtype=getattr(near, name).to(torch.bfloat16),
            )
            assert judged.passed, judged
        if number % 3 == 0:
            added = inputs.prefix if inputs.pending is None else inputs.prefix + inputs.pending
            assert torch.equal(rows.blocks[number // 3], added)
        state_after = _stored(carried(inputs, wanted))


@pytest.mark.usefixtures("torch_ops")
def test_padding_changes_no_state_and_no_other_row() -> None:
    batch, context = Batch(tokens=1, requests=4), 70
    found = []
    for live in (4, 2):
        state = allocate_state(DIMS, range(4), batch, CPU, context=context)
        layers = [pack_layer(*random_layer(DIMS, i, 0, CPU), DIMS, i) for i in range(4)]
        executor = DecodeExecutor(DIMS, layers, state, ends=random_ends(DIMS, 0, CPU))
        begin_step(executor, batch, context=context, live=live, seed=1)
        before = {n: memory.clone() for n, memory in state.kda_memory.items()}
        pages = {n: page.clone() for n, page in state.mla_pages.items()}
        for launch in executor.launches(batch):
            launch.run()
        found.append(executor.buffers.vocabulary[:2].clone())
        for number, memory in state.kda_memory.items():
            assert torch.equal(memory[live + 1 :], before[number][live + 1 :])
            assert not torch.equal(memory[1 : live + 1], before[number][1 : live + 1])
        touched = (state.mla_pages[3] != pages[3]).any(-1).any(-1)
        assert touched.tolist() == [
            request < live and page == 1 for request in range(4) for page in range(2)
        ]
        assert bool(torch.isfinite(executor.buffers.vocabulary).all())
    assert torch.allclose(found[0], found[1], atol=1e-2)


@pytest.mark.usefixtures("torch_ops")
def test_launches_of_each_kind_of_layer() -> None:
    batch = Batch(tokens=1, requests=1)
    state = allocate_state(DIMS, range(4), batch, CPU, context=1)
    layers = [pack_layer(*random_layer(DIMS, i, 0, CPU), DIMS, i) for i in range(4)]
    executor = DecodeExecutor(DIMS, layers, state)
    counts = [
        sum(launch.kernels for launch in executor.launches(batch, depth)) for depth in range(1, 5)
    ]
    dense, kda, mla = counts[0], counts[1] - counts[0], counts[3] - counts[2]
    assert (dense, kda, counts[2] - counts[1], mla) == (7, 10, 10, 14)


def test_memory_is_counted() -> None:
    batch = Batch(tokens=1, requests=3)
    state = allocate_state(DIMS, range(4), batch, CPU, context=65)
    executor = DecodeExecutor(DIMS, [], state)
    assert executor.buffers.prefix.shape == (3, 256)
    assert executor.buffers.bytes > 3 * 256 * 2
    assert set(state.kda_memory) == {0, 1, 2} and set(state.mla_pages) == {3}
    assert state.mla_pages[3].shape == (6, 64, 576)


def test_a_choice_is_judged_where_the_gap_decides() -> None:
    logits = torch.linspace(2.0, -2.0, 32, dtype=torch.float64)[None]
    bias = torch.zeros(32)
    right, other = torch.tensor([[3, 2, 1, 0]]), torch.tensor([[4, 2, 1, 0]])
    close, coarse = logits + 1e-4, logits + 0.1
    assert judge_choice(right, logits, close, bias) == (True, 0)
    assert judge_choice(other, logits, close, bias) == (False, 0)
    assert judge_choice(other, logits, coarse, bias) == (True, 1)


@pytest.mark.usefixtures("torch_ops")
def test_drafts_give_what_single_tokens_give_one_after_the_other() -> None:
    """Two requests with two tokens each, through three KDA layers and an MLA layer."""
    past, numbers = 66, (0, 1, 2, 3)
    tokens = torch.tensor([[3, 9], [5, 4]], dtype=torch.int32)
    layers = [pack_layer(*random_layer(DIMS, i, 0, CPU), DIMS, i) for i in numbers]
    ends, found = random_ends(DIMS, 0, CPU), {}
    for together in (1, 2):
        batch = Batch(tokens=together, requests=2)
        state = allocate_state(DIMS, range(4), batch, CPU, context=past + 2)
        generator = torch.Generator().manual_seed(7)
        for number in (0, 1, 2):
            for slot in (1, together + 1):
                memory = state.kda_memory[number][slot]
                memory.normal_(generator=generator).mul_(0.1)
                state.kda_taps[number][slot, :3].normal_(generator=generator)
        state.mla_pages[3].normal_(generator=generator)
        state.kda_slots.copy_(torch.arange(1, 2 * together + 1).view(2, together))
        executor = DecodeExecutor(DIMS, layers, state, ends=ends)
        rows = []
        for first in range(0, 2, together):
            state.lengths.fill_(past + first + together)
            places = past + first + torch.arange(together)
            state.cache_slots.copy_((torch.arange(2)[:, None] * 128 + places).flatten())
            executor.buffers.tokens.copy_(tokens[:, first : first + together].flatten())
            for launch in executor.launches(batch):
                launch.run()
            rows.append(executor.buffers.vocabulary.unflatten(0, (2, together)).clone())
        found[together] = torch.cat(rows, dim=1)
        found[-together] = state.kda_memory[2][[together, 2 * together]].clone()
    assert torch.allclose(found[1], found[2], atol=2e-2 * float(found[1].abs().max()))
    assert torch.allclose(found[-1], found[-2], atol=1e-3)

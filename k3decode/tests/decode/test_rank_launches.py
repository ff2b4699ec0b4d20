"""A rank among peers, without a GPU: what each launch brings, gets, and leaves behind.

The peers of these tests add nothing to sums and bring the right columns of what is gathered, so the
rank must give what a model gives that has its heads, its part of the experts, and all of the rest.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from k3decode.comm.reference import owner_columns, sendable
from k3decode.decode.batches import Batch
from k3decode.decode.buffers import allocate_state
from k3decode.decode.exchanges import RankExchanges, allocate_exchanges
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_reference import LayerInputs, LayerOutputs, LayerReference
from k3decode.decode.packing import OwnRows, pack_layer
from k3decode.decode.placed_state import place_state
from k3decode.decode.random_weights import random_layer
from k3decode.decode.whole_check import random_executor
from k3decode.ops.dense_mlp.reference import situ
from k3decode.tolerance import judge_close

from .executor_on_cpu import CPU, DIMS, torch_ops

__all__ = ["torch_ops"]

RANKS, RANK, ROWS = 2, 1, 2
DIMS_OF_RANK = replace(DIMS, num_experts=128)
WHOLE = replace(DIMS_OF_RANK, shared_intermediate_size=RANKS * DIMS.shared_intermediate_size)
HIDDEN, LATENT = DIMS.hidden_size, DIMS.latent_size
MOE = "block_sparse_moe."


def _inputs(number: int) -> LayerInputs:
    generator = torch.Generator().manual_seed(number)

    def rows(*lead: int) -> Tensor:
        return torch.randn(*lead, ROWS, HIDDEN, generator=generator).bfloat16()

    inputs = LayerInputs(rows(), rows(), rows(-(-number // DIMS.attn_res_block_size)))
    if DIMS.is_mla(number):
        return replace(inputs, cache=torch.zeros(ROWS, 0, DIMS.mla_row, dtype=torch.bfloat16))
    heads, width = DIMS.num_attention_heads, DIMS.kda_head_dim
    return replace(
        inputs,
        taps=torch.zeros(ROWS, 3, 3 * DIMS.kda_width, dtype=torch.bfloat16),
        memory=torch.zeros(ROWS, heads, width, width),
    )


def _bring_front(x: RankExchanges, tensors: dict[str, Tensor], out: LayerOutputs) -> None:
    """What peers have of logits, latent row and activation, from the reference's rows."""
    hidden, weights = out.hidden.float(), {n: t.float() for n, t in tensors.items()}
    down = hidden @ weights[f"{MOE}routed_expert_down_proj.weight"].T
    gate, up = (
        hidden @ weights[f"{MOE}shared_experts.{name}_proj.weight"].T for name in ("gate", "up")
    )
    active = situ(gate.bfloat16().float(), up.bfloat16().float(), 4.0, 25.0)
    assert out.logits is not None
    whole = [out.logits.float(), down.bfloat16(), active.bfloat16()]
    words = x.front.mailbox.words[0, 0, :ROWS]
    begin = 0
    for part in (sendable(rows) for rows in whole):
        width = part.shape[1]
        words[:, begin : begin + width] = part
        # What the rank owns nobody brings.
        own = owner_columns(width, RANK, RANKS)
        words[:, begin + own.start : begin + own.stop] = -1
        begin += width
    assert begin == words.shape[1]


def _bring(x: RankExchanges, number: int, inputs: LayerInputs) -> None:
    """Zeros to sums, and the columns of the layer before."""
    for peers in (x.attention, x.latent, x.dense):
        peers.mailbox.words[0] = 0
        peers.mailbox.words[0, RANK] = -1
    assert inputs.pending is not None
    own = owner_columns(HIDDEN, RANK, RANKS)
    x.own_output.copy_(inputs.pending[:, own])
    words = sendable(inputs.pending)
    words[:, owner_columns(HIDDEN // 2, RANK, RANKS)] = -1
    if not DIMS.is_dense(number - 1):
        x.output.mailbox.words[0, 0] = words


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.usefixtures("torch_ops")
def test_a_layer_gives_its_part_of_what_the_reference_gives(number: int) -> None:
    """KDA behind a dense layer, MLA behind MoE at the start of a block."""
    inputs = _inputs(number)
    tensors, experts = random_layer(WHOLE, number, 0, CPU)
    batch = Batch(tokens=1, requests=ROWS)
    state = allocate_state(DIMS_OF_RANK, range(number, number + 1), batch, CPU, context=1)
    x = allocate_exchanges(DIMS_OF_RANK, 1, ROWS, RANK, RANKS, CPU, seed=0)
    layer = pack_layer(tensors, experts, DIMS_OF_RANK, number, own=OwnRows(RANK, RANKS))
    executor = DecodeExecutor(DIMS_OF_RANK, [layer], state, exchanges=x)
    exact, rounded = (
        LayerReference(WHOLE, number, tensors, experts, rounded=one) for one in (False, True)
    )
    rows = executor.buffers
    rows.prefix.copy_(inputs.prefix)
    rows.blocks[: len(inputs.blocks)].copy_(inputs.blocks)
    if DIMS.is_dense(number - 1):
        assert inputs.pending is not None
        rows.pending.copy_(inputs.pending)
    place_state(state, number, inputs, batch, 1)
    _bring(x, number, inputs)
    some = torch.arange(DIMS.num_experts_per_token).expand(ROWS, -1)
    _bring_front(x, tensors, rounded.apply(inputs, some))
    for launch in executor.launches(batch):
        launch.run()
    wanted, near = (form.apply(inputs, rows.experts[0].long()) for form in (exact, rounded))
    own = owner_columns(HIDDEN, RANK, RANKS)
    for name, found, columns in (
        ("prefix", rows.prefix, slice(None)),
        ("hidden", rows.hidden, slice(None)),
        ("pending", x.own_output, own),
    ):
        judged = judge_close(
            name,
            found,
            reference=getattr(wanted, name)[:, columns],
            same_dtype=getattr(near, name)[:, columns].to(torch.bfloat16),
        )
        assert judged.passed, judged
    taken = (x.attention, x.latent, x.front, x.output)
    for peers in taken if number > 1 else taken[:3]:
        assert bool((peers.mailbox.words[0] == -1).all())
    # The peers' memory has what this rank has sent.
    (sent,) = (m for r, m in enumerate(x.attention.mailbox.outgoing) if r != RANK)
    assert torch.equal(sent[0, RANK], sendable(rows.attended))


@pytest.mark.usefixtures("torch_ops")
def test_a_step_of_several_layers_uses_each_place_once() -> None:
    executor = random_executor(
        replace(DIMS_OF_RANK, num_hidden_layers=3),
        layers=3,
        rows=2,
        context=3,
        seed=0,
        device=CPU,
        peers_of=RANKS,
    )
    x, batch = executor.exchanges, Batch(tokens=1, requests=2)
    assert x is not None and x.rank == 0
    executor.state.lengths.fill_(1)
    found = []
    for depth in (3, 3, 2):
        bring = executor.peers(batch, depth)
        assert bring is not None
        bring()
        launches = executor.launches(batch, depth)
        for launch in launches:
            launch.run()
        # What nobody brings is the rank's own; all else was taken.
        for peers in (x.attention, x.dense, x.front, x.latent, x.output):
            if peers.mailbox.words.shape[1] > 1:
                assert bool((peers.mailbox.words[:, 1:] == -1).all())
        x.check()
        found.append(executor.buffers.vocabulary.clone())
        assert sum(launch.kernels for launch in launches) == {3: 34, 2: 20}[depth]
    assert torch.equal(found[0], found[1])
    assert bool(torch.isfinite(found[2]).all())

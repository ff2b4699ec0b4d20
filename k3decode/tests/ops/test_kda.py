"""KDA: two forms against each other, and both against scalar loops."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from k3decode.difference import relative_error
from k3decode.ops.kda import reference
from k3decode.ops.kda.reference import (
    KdaProjection,
    KdaState,
    KdaWeights,
    kda_chunked,
    kda_project,
    kda_recurrent,
)
from k3decode.ops.short_conv.reference import short_conv_step

HEADS, WIDTH, HIDDEN, RANK, TAPS = 3, 8, 10, 4, 4
CHANNELS = HEADS * WIDTH
# Both forms are fp32; two roundings per product over at most 130 tokens stay far below this.
TOLERANCE = 2e-5


class Draw:
    """Normal tensors from one seed."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator)


def weights_of(draw: Draw, *, dt_bias: float = -2.0) -> KdaWeights:
    return KdaWeights(
        in_proj=draw(4 * CHANNELS + RANK + HEADS, HIDDEN) / HIDDEN**0.5,
        f_b_proj=draw(CHANNELS, RANK) / RANK**0.5,
        o_proj=draw(HIDDEN, CHANNELS) / CHANNELS**0.5,
        conv_weight=draw(3 * CHANNELS, TAPS) / 2,
        a_log=draw(HEADS) / 4,
        dt_bias=draw(CHANNELS) + dt_bias,
        o_norm=1 + draw(WIDTH) / 10,
        gate_lower_bound=-5.0,
        qk_norm_eps=1e-6,
        norm_eps=1e-5,
    )


def state_of(draw: Draw, batch: int) -> KdaState:
    return KdaState(
        taps=draw(batch, TAPS - 1, 3 * CHANNELS), memory=draw(batch, HEADS, WIDTH, WIDTH)
    )


def part(projection: KdaProjection, tokens: slice) -> KdaProjection:
    return KdaProjection(
        qkv=projection.qkv[:, tokens],
        gate=projection.gate[:, tokens],
        raw_decay=projection.raw_decay[:, tokens],
        raw_beta=projection.raw_beta[:, tokens],
    )


def assert_forms_agree(projection: KdaProjection, weights: KdaWeights, state: KdaState) -> None:
    out, after = kda_recurrent(projection, weights, state)
    other, other_after = kda_chunked(projection, weights, state)
    assert relative_error(other, out) < TOLERANCE
    assert relative_error(other_after.memory, after.memory) < TOLERANCE
    assert torch.equal(other_after.taps, after.taps)


# One token, around the stored taps, around one and two chunks of 32, and past four chunks.
@pytest.mark.parametrize("length", [1, 2, 3, 4, 31, 32, 33, 63, 64, 65, 130])
def test_chunked_equals_recurrent(length: int) -> None:
    draw = Draw(length)
    weights = weights_of(draw)
    projection = kda_project(draw(2, length, HIDDEN), weights)
    assert_forms_agree(projection, weights, state_of(draw, 2))


# Every gate at its bound, where 130 tokens fade by exp(-650); and open, where nothing fades.
@pytest.mark.parametrize("bias", [40.0, -40.0])
def test_chunked_equals_recurrent_at_the_ends_of_the_gate(bias: float) -> None:
    draw = Draw(5)
    weights = dataclasses.replace(weights_of(draw), dt_bias=torch.full((CHANNELS,), bias))
    projection = kda_project(draw(1, 130, HIDDEN), weights)
    assert_forms_agree(projection, weights, state_of(draw, 1))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    length=st.integers(1, 48),
    chunk=st.integers(1, 50),
    scale=st.floats(0.0, 30.0),
)
def test_chunk_length_does_not_matter(seed: int, length: int, chunk: int, scale: float) -> None:
    draw = Draw(seed)
    weights = weights_of(draw)
    projection = kda_project(draw(1, length, HIDDEN), weights)
    projection = dataclasses.replace(projection, raw_decay=projection.raw_decay * scale)
    state = state_of(draw, 1)
    out, after = kda_recurrent(projection, weights, state)
    other, other_after = kda_chunked(projection, weights, state, chunk=chunk)
    assert relative_error(other, out) < TOLERANCE
    assert relative_error(other_after.memory, after.memory) < TOLERANCE


@pytest.mark.parametrize("form", [kda_recurrent, kda_chunked])
@pytest.mark.parametrize("cut", [1, 2, 40, 69])
def test_state_carries_a_sequence_over_a_cut(form: reference.KdaForm, cut: int) -> None:
    draw = Draw(3)
    weights = weights_of(draw)
    projection = kda_project(draw(2, 70, HIDDEN), weights)
    state = state_of(draw, 2)
    whole, whole_after = form(projection, weights, state)
    head, between = form(part(projection, slice(0, cut)), weights, state)
    tail, after = form(part(projection, slice(cut, None)), weights, between)
    assert relative_error(torch.cat([head, tail], dim=1), whole) < TOLERANCE
    assert relative_error(after.memory, whole_after.memory) < TOLERANCE
    assert torch.equal(after.taps, whole_after.taps)


@pytest.mark.parametrize("form", [kda_recurrent, kda_chunked])
def test_no_tokens_leave_the_state_alone(form: reference.KdaForm) -> None:
    draw = Draw(4)
    weights, state = weights_of(draw), state_of(draw, 1)
    out, after = form(kda_project(draw(1, 0, HIDDEN), weights), weights, state)
    assert out.shape == (1, 0, CHANNELS)
    assert torch.equal(after.memory, state.memory)
    assert torch.equal(after.taps, state.taps)


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def scalar_head(
    projection: KdaProjection, weights: KdaWeights, state: KdaState, head: int
) -> list[list[float]]:
    """The specification in scalars, for one head of the first sequence."""
    first = head * WIDTH
    memory = state.memory[0, head].tolist()
    history = state.taps[0].tolist() + projection.qkv[0].tolist()
    conv = weights.conv_weight.tolist()
    rows = []
    for t in range(projection.gate.shape[1]):

        def convolved(channel: int, t: int = t) -> float:
            total = float(sum(conv[channel][j] * history[t + j][channel] for j in range(TAPS)))
            return total * sigmoid(total)

        q, k, v = (
            [convolved(block * CHANNELS + first + c) for c in range(WIDTH)] for block in range(3)
        )
        q_scale = 1 / math.sqrt(sum(x * x for x in q) + 1e-6) / math.sqrt(WIDTH)
        k_scale = 1 / math.sqrt(sum(x * x for x in k) + 1e-6)
        q, k = [x * q_scale for x in q], [x * k_scale for x in k]
        beta = sigmoid(float(projection.raw_beta[0, t, head]))
        for c in range(WIDTH):
            raw = float(projection.raw_decay[0, t, first + c]) + float(weights.dt_bias[first + c])
            decay = math.exp(-5.0 * sigmoid(math.exp(float(weights.a_log[head])) * raw))
            for i in range(WIDTH):
                memory[i][c] *= decay
        for i in range(WIDTH):
            error = (v[i] - sum(memory[i][c] * k[c] for c in range(WIDTH))) * beta
            for c in range(WIDTH):
                memory[i][c] += error * k[c]
        out = [sum(memory[i][c] * q[c] for c in range(WIDTH)) for i in range(WIDTH)]
        norm = math.sqrt(sum(x * x for x in out) / WIDTH + 1e-5)
        gates = projection.gate[0, t, first : first + WIDTH].tolist()
        scale = weights.o_norm.tolist()
        rows.append([out[i] / norm * scale[i] * sigmoid(gates[i]) for i in range(WIDTH)])
    return rows


@pytest.mark.parametrize("form", [kda_recurrent, kda_chunked])
def test_forms_equal_scalar_loops(form: reference.KdaForm) -> None:
    draw = Draw(6)
    weights, state = weights_of(draw), state_of(draw, 1)
    projection = kda_project(draw(1, 7, HIDDEN), weights)
    out, _ = form(projection, weights, state)
    for head in range(HEADS):
        expected = torch.tensor(scalar_head(projection, weights, state, head))
        assert relative_error(out[0, :, head * WIDTH : (head + 1) * WIDTH], expected) < TOLERANCE


def test_swapped_taps_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Draw(7)
    weights, state = weights_of(draw), state_of(draw, 1)
    projection = kda_project(draw(1, 20, HIDDEN), weights)
    monkeypatch.setattr(
        reference, "short_conv_step", lambda x, t, w: short_conv_step(x, t, w.flip(1))
    )
    out, _ = kda_recurrent(projection, weights, state)
    other, _ = kda_chunked(projection, weights, state)
    assert relative_error(other, out) > 1000 * TOLERANCE


def test_projection_rows_are_in_the_stated_order() -> None:
    draw = Draw(8)
    weights = weights_of(draw)
    x = draw(1, 2, HIDDEN)
    got = kda_project(x, weights)
    rows = x @ weights.in_proj.T
    assert relative_error(got.gate, rows[..., 3 * CHANNELS : 4 * CHANNELS]) < 1e-6
    decay = rows[..., 4 * CHANNELS : 4 * CHANNELS + RANK] @ weights.f_b_proj.T
    assert relative_error(got.raw_decay, decay) < 1e-6
    assert relative_error(got.raw_beta, rows[..., -HEADS:]) < 1e-6

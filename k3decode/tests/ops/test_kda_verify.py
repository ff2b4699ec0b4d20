"""Verify steps: whatever was accepted, a request goes on as if only that had ever been decoded."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from k3decode.difference import relative_error
from k3decode.ops.kda.paged_reference import KdaPages, kda_verify
from k3decode.ops.kda.reference import (
    KdaForm,
    KdaProjection,
    KdaState,
    kda_chunked,
    kda_project,
    kda_recurrent,
)

from .test_kda import CHANNELS, HEADS, HIDDEN, TAPS, TOLERANCE, WIDTH, Draw, part, weights_of


def pages_of(draw: Draw, count: int, tokens: int) -> KdaPages:
    """Pages of which nothing may be read but what a test puts there."""
    nan = float("nan")
    return KdaPages(
        conv=torch.full((count, TAPS - 2 + tokens, 3 * CHANNELS), nan),
        memory=torch.full((count, HEADS, WIDTH, WIDTH), nan),
    )


def joined(first: KdaProjection, second: KdaProjection) -> KdaProjection:
    return KdaProjection(
        **{
            name: torch.cat([getattr(first, name), getattr(second, name)], dim=1)
            for name in ("qkv", "gate", "raw_decay", "raw_beta")
        }
    )


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    tokens=st.integers(1, 5),
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    form=st.sampled_from([kda_recurrent, kda_chunked]),
)
def test_a_request_goes_on_from_what_was_accepted(
    seed: int, tokens: int, counts: list[int], form: KdaForm
) -> None:
    draw = Draw(seed)
    weights = weights_of(draw)
    kept = [min(count, tokens) for count in counts]
    true = kda_project(draw(1, sum(kept) + tokens, HIDDEN), weights)
    start = KdaState(taps=draw(1, TAPS - 1, 3 * CHANNELS), memory=draw(1, HEADS, WIDTH, WIDTH))
    expected, _ = kda_recurrent(true, weights, start)
    pages = pages_of(draw, tokens + 2, tokens)
    slots = 1 + torch.randperm(tokens + 1)[None, :tokens]
    pages.conv[slots[0, 0], : TAPS - 1] = start.taps[0]
    pages.memory[slots[0, 0]] = start.memory[0]
    accepted, done = 1, 0
    for count in kept:
        # Right tokens as far as they will be accepted, then drafts that were wrong.
        right = part(true, slice(done, done + count))
        wrong = kda_project(draw(1, tokens - count, HIDDEN), weights)
        out = kda_verify(
            joined(right, wrong), weights, pages, slots, torch.tensor([accepted]), form=form
        )
        found, wanted = out[:, :count], expected[:, done : done + count]
        assert relative_error(found, wanted) < TOLERANCE
        accepted, done = count, done + count


@pytest.mark.parametrize("form", [kda_recurrent, kda_chunked])
def test_padding_gives_zeros_and_touches_nothing(form: KdaForm) -> None:
    draw = Draw(1)
    weights = weights_of(draw)
    pages = pages_of(draw, 6, 2)
    before = KdaPages(conv=pages.conv.clone(), memory=pages.memory.clone())
    projection = kda_project(draw(3, 2, HIDDEN), weights)
    slots = torch.tensor([[0, 0], [-1, 3], [4, 0]])
    out = kda_verify(projection, weights, pages, slots, torch.tensor([1, 2, 2]), form=form)
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.equal(pages.conv.isnan(), before.conv.isnan())
    assert torch.equal(pages.memory.isnan(), before.memory.isnan())


def test_a_state_without_a_page_is_dropped_and_the_next_token_still_sees_it() -> None:
    draw = Draw(2)
    weights = weights_of(draw)
    projection = kda_project(draw(1, 3, HIDDEN), weights)
    start = KdaState(taps=draw(1, TAPS - 1, 3 * CHANNELS), memory=draw(1, HEADS, WIDTH, WIDTH))
    pages = pages_of(draw, 4, 3)
    pages.conv[2, : TAPS - 1] = start.taps[0]
    pages.memory[2] = start.memory[0]
    out = kda_verify(projection, weights, pages, torch.tensor([[2, 0, 3]]), torch.tensor([1]))
    expected, after = kda_recurrent(projection, weights, start)
    assert relative_error(out, expected) < TOLERANCE
    assert relative_error(pages.memory[3], after.memory[0]) < TOLERANCE
    assert bool(pages.memory[:2].isnan().all())
    assert torch.equal(pages.conv[2], torch.cat([start.taps[0, 1:], projection.qkv[0]]))

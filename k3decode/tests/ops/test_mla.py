import math
from collections.abc import Callable

import pytest
import torch

from k3decode.difference import relative_error
from k3decode.ops.mla.reference import MlaWeights, mla_absorbed, mla_project, mla_unabsorbed

HIDDEN, HEADS, RANK, LATENT, NOPE, SHARED, VALUE = 12, 3, 7, 10, 4, 2, 5
TOLERANCE = 5e-6

MlaForm = Callable[[torch.Tensor, MlaWeights, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def weights_of(generator: torch.Generator) -> MlaWeights:
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) / shape[-1] ** 0.5

    gate = HEADS * VALUE
    return MlaWeights(
        in_proj=draw(RANK + LATENT + SHARED + gate, HIDDEN),
        q_a_layernorm=1 + draw(RANK),
        q_b_proj=3 * draw(HEADS * (NOPE + SHARED), RANK),
        kv_a_layernorm=1 + draw(LATENT),
        kv_b_proj=3 * draw(HEADS * (NOPE + VALUE), LATENT),
        o_proj=draw(HIDDEN, gate),
        num_heads=HEADS,
        nope=NOPE,
        scale=(NOPE + SHARED) ** -0.5,
        norm_eps=1e-5,
    )


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# New tokens after none, one and many cached ones.
@pytest.mark.parametrize(("length", "cached"), [(1, 0), (5, 0), (1, 1), (1, 40), (17, 23)])
def test_absorbed_equals_unabsorbed(generator: torch.Generator, length: int, cached: int) -> None:
    weights = weights_of(generator)
    x = torch.randn(length, HIDDEN, generator=generator)
    cache = torch.randn(cached, LATENT + SHARED, generator=generator)
    out, rows = mla_unabsorbed(x, weights, cache)
    other, other_rows = mla_absorbed(x, weights, cache)
    assert relative_error(other, out) < TOLERANCE
    assert torch.equal(rows, other_rows)


@pytest.mark.parametrize("form", [mla_unabsorbed, mla_absorbed])
def test_cache_carries_a_sequence_over_a_cut(generator: torch.Generator, form: MlaForm) -> None:
    weights = weights_of(generator)
    x = torch.randn(9, HIDDEN, generator=generator)
    whole, whole_rows = form(x, weights, torch.zeros(0, LATENT + SHARED))
    head, rows = form(x[:4], weights, torch.zeros(0, LATENT + SHARED))
    tail, rows = form(x[4:], weights, rows)
    assert relative_error(torch.cat([head, tail]), whole) < TOLERANCE
    assert relative_error(rows, whole_rows) < TOLERANCE


@pytest.mark.parametrize("form", [mla_unabsorbed, mla_absorbed])
def test_forms_equal_scalar_attention(generator: torch.Generator, form: MlaForm) -> None:
    weights = weights_of(generator)
    x = torch.randn(4, HIDDEN, generator=generator)
    out, rows = form(x, weights, torch.zeros(0, LATENT + SHARED))
    new = mla_project(x, weights)
    per_head = weights.kv_b_proj.view(HEADS, NOPE + VALUE, LATENT)
    expected = []
    for t in range(4):
        heads = []
        for h in range(HEADS):
            keys = [
                torch.cat([per_head[h, :NOPE] @ rows[s, :LATENT], rows[s, LATENT:]])
                for s in range(t + 1)
            ]
            scores = [float(new.query[t, h] @ key) * weights.scale for key in keys]
            shares = [math.exp(s - max(scores)) for s in scores]
            value = sum(
                share / sum(shares) * (per_head[h, NOPE:] @ rows[s, :LATENT])
                for s, share in enumerate(shares)
            )
            gate = new.gate[t, h * VALUE : (h + 1) * VALUE]
            heads.append(value / (1 + torch.exp(-gate)))
        expected.append(weights.o_proj @ torch.cat(heads))
    assert relative_error(out, torch.stack(expected)) < TOLERANCE


def test_a_later_token_does_not_change_an_earlier_one(generator: torch.Generator) -> None:
    weights = weights_of(generator)
    x = torch.randn(6, HIDDEN, generator=generator)
    empty = torch.zeros(0, LATENT + SHARED)
    before, _ = mla_absorbed(x, weights, empty)
    x[5] = 100.0
    after, _ = mla_absorbed(x, weights, empty)
    assert relative_error(after[:5], before[:5]) < TOLERANCE
    assert relative_error(after[5], before[5]) > 0.01

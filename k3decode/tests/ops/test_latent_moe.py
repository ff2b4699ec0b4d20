import math
from collections.abc import Callable

import pytest
import torch

from k3decode.difference import relative_error
from k3decode.ops.dense_mlp.reference import MlpWeights, dense_mlp, situ
from k3decode.ops.latent_moe.reference import (
    MoeWeights,
    latent_moe,
    routed_experts,
    routed_experts_gathered,
)
from k3decode.ops.router.reference import Routing, route

HIDDEN, LATENT, INNER, EXPERTS, TOP_K = 10, 6, 8, 9, 3
TOLERANCE = 5e-6
Experts = Callable[[torch.Tensor, Routing, MoeWeights], torch.Tensor]


def weights_of(seed: int) -> MoeWeights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return MoeWeights(
        gate=draw(EXPERTS, HIDDEN),
        correction_bias=draw(EXPERTS) / 4,
        down_proj=draw(LATENT, HIDDEN),
        norm=1 + draw(LATENT) / 4,
        up_proj=draw(HIDDEN, LATENT),
        w1=draw(EXPERTS, INNER, LATENT),
        w3=draw(EXPERTS, INNER, LATENT),
        w2=draw(EXPERTS, LATENT, INNER),
        shared=MlpWeights(draw(INNER, HIDDEN), draw(INNER, HIDDEN), draw(HIDDEN, INNER), 4.0, 25.0),
        top_k=TOP_K,
        scaling_factor=1.0,
        norm_eps=1e-5,
    )


def scalar_situ(gate: float, up: float) -> float:
    return 4 * math.tanh(gate / 4) / (1 + math.exp(-gate)) * 25 * math.tanh(up / 25)


def test_situ_equals_its_formula_and_is_bounded() -> None:
    gates, ups = (
        torch.tensor([-3.0, 0.0, 0.5, 2.0, 90.0]),
        torch.tensor([1.0, 2.0, -3.0, 40.0, 1e4]),
    )
    expected = [scalar_situ(g, u) for g, u in zip(gates.tolist(), ups.tolist(), strict=True)]
    assert situ(gates, ups, 4.0, 25.0).tolist() == pytest.approx(expected, rel=1e-5)
    assert situ(torch.tensor(1e6), torch.tensor(1e6), 4.0, 25.0).item() == 100.0


# Fewer rows and more rows than the gathered form is used for.
@pytest.mark.parametrize("tokens", [1, 5, 40])
def test_moe_equals_a_dense_loop_over_all_experts(tokens: int) -> None:
    weights = weights_of(tokens)
    x = torch.randn(tokens, HIDDEN, generator=torch.Generator().manual_seed(0))
    routing = route(x @ weights.gate.T, weights.correction_bias, TOP_K, 1.0)
    share = torch.zeros(tokens, EXPERTS).scatter(1, routing.experts, routing.weights)
    latent = x @ weights.down_proj.T
    summed = torch.zeros(tokens, LATENT)
    for e in range(EXPERTS):
        inner = situ(latent @ weights.w1[e].T, latent @ weights.w3[e].T, 4.0, 25.0)
        summed += share[:, e : e + 1] * (inner @ weights.w2[e].T)
    normed = summed / torch.sqrt(summed.square().mean(-1, keepdim=True) + 1e-5) * weights.norm
    expected = normed @ weights.up_proj.T + dense_mlp(x, weights.shared)
    assert relative_error(latent_moe(x, weights), expected) < TOLERANCE


@pytest.mark.parametrize("form", [routed_experts, routed_experts_gathered])
def test_a_token_gets_its_own_experts_weighted_sum(form: Experts) -> None:
    weights = weights_of(1)
    latent = torch.randn(2, LATENT, generator=torch.Generator().manual_seed(2))
    routing = Routing(
        experts=torch.tensor([[8, 0], [0, 3]]), weights=torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    )
    out = form(latent, routing, weights)

    def expert(e: int, row: torch.Tensor) -> torch.Tensor:
        return weights.w2[e] @ situ(weights.w1[e] @ row, weights.w3[e] @ row, 4.0, 25.0)

    first = 0.25 * expert(8, latent[0]) + 0.75 * expert(0, latent[0])
    assert relative_error(out, torch.stack([first, expert(0, latent[1])])) < TOLERANCE


def test_shared_expert_sees_the_full_row() -> None:
    weights = weights_of(3)
    x = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(4))
    silent = MoeWeights(**{**vars(weights), "up_proj": torch.zeros(HIDDEN, LATENT)})
    assert relative_error(latent_moe(x, silent), dense_mlp(x, weights.shared)) == 0.0

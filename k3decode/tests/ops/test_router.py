import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from k3decode.ops.router.reference import route


def logit(score: float) -> float:
    return float(torch.logit(torch.tensor(score, dtype=torch.float64)))


def test_equal_scores_go_to_the_lower_expert_id() -> None:
    logits = torch.tensor([[0.5, 1.0, 1.0, 0.5, 1.0, 0.5]])
    routing = route(logits, torch.zeros(6), top_k=5, scaling_factor=1.0)
    assert routing.experts.tolist() == [[1, 2, 4, 0, 3]]


def test_many_equal_scores_keep_the_order_of_ids() -> None:
    routing = route(torch.zeros(2, 896), torch.zeros(896), top_k=16, scaling_factor=1.0)
    assert routing.experts.tolist() == [list(range(16))] * 2


def test_bias_selects_but_does_not_weigh() -> None:
    logits = torch.tensor([[logit(0.2), logit(0.6), logit(0.3)]])
    bias = torch.tensor([1.0, 0.0, 0.0])
    routing = route(logits, bias, top_k=2, scaling_factor=1.0)
    assert routing.experts.tolist() == [[0, 1]]
    assert routing.weights[0].tolist() == pytest.approx([0.2 / 0.8, 0.6 / 0.8], rel=1e-6)


def test_weights_are_renormalised_and_scaled() -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    routing = route(logits, torch.zeros(9), top_k=3, scaling_factor=2.5)
    assert routing.weights.sum(-1).tolist() == pytest.approx([2.5] * 4, rel=1e-6)


def test_underflowing_scores_give_finite_weights() -> None:
    routing = route(torch.full((1, 4), -200.0), torch.zeros(4), top_k=2, scaling_factor=1.0)
    assert torch.isfinite(routing.weights).all()


@settings(max_examples=50, deadline=None)
@given(
    scores=st.lists(st.sampled_from([-1.0, 0.0, 0.25, 2.0]), min_size=1, max_size=24),
    data=st.data(),
)
def test_selection_equals_sorting_by_score_and_id(scores: list[float], data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, len(scores)))
    routing = route(torch.tensor([scores]), torch.zeros(len(scores)), top_k, scaling_factor=1.0)
    expected = sorted(range(len(scores)), key=lambda e: (-scores[e], e))[:top_k]
    assert routing.experts[0].tolist() == expected

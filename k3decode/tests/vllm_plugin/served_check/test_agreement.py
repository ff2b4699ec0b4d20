import pytest
import torch

from k3decode.vllm_plugin.served_check.agreement import (
    errors_by_step,
    judge_agreement,
    relative_errors,
)


def _logits(positions: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(positions, 50, generator=generator)
    rows[:, 0] = torch.where(torch.arange(positions) % 2 == 0, 30.0, -30.0)
    rows[:, 1] = -rows[:, 0]
    return rows


def test_rounding_passes() -> None:
    stock = _logits()
    found = judge_agreement(stock + 0.05, stock, stock - 0.05)
    assert (found.outcome, found.sentence) == ("passed", "")
    assert found.deciding_share == found.equal_where_deciding == 1.0
    assert found.equal_anywhere == found.stock_equal_itself == 1.0
    assert found.largest == pytest.approx(0.05, rel=1e-3)
    assert found.allowed == pytest.approx(0.1 + 2 * 30 / 256, rel=1e-3)


def test_another_token_fails_where_the_margin_decides() -> None:
    stock = _logits()
    ours = stock.clone()
    ours[3] = -ours[3]
    found = judge_agreement(ours, stock, stock)
    assert found.outcome == "failed" and "same greedy token" in found.sentence
    assert found.equal_where_deciding == pytest.approx(39 / 40)


def test_a_difference_beyond_rounding_fails_with_equal_tokens() -> None:
    stock = _logits()
    ours = stock.clone()
    ours[5, 20] += 2.0
    found = judge_agreement(ours, stock, stock)
    assert found.outcome == "failed" and "found a difference of 2" in found.sentence


def test_margins_that_decide_nothing_are_no_result() -> None:
    stock = _logits()
    stock[: len(stock) // 4, :2] = 0.0
    found = judge_agreement(stock, stock, stock - 0.2)
    assert found.outcome == "invalid" and "louder" in found.sentence


def test_nan_fails() -> None:
    stock = _logits()
    ours = stock.clone()
    ours[0, 0] = torch.nan
    assert judge_agreement(ours, stock, stock).outcome == "failed"


def test_relative_errors_are_quantiles_over_positions() -> None:
    other = torch.ones(3, 4)
    one = other * torch.tensor([1.0, 1.1, 1.5])[:, None]
    found = relative_errors(one, other)
    assert found["median"] == pytest.approx(0.1, rel=1e-4)
    assert found["largest"] == pytest.approx(0.5, rel=1e-4)


def test_errors_by_step_are_medians_over_requests() -> None:
    other = torch.ones(2, 3, 4)
    one = other * torch.tensor([[1.0, 1.1, 1.5], [2.0, 2.0, 1.0]])[:, :, None]
    assert errors_by_step(one, other) == pytest.approx([0.1, 1.0], rel=1e-4)

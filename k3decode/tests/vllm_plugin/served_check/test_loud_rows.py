"""A row of the LM head that decides at given positions."""

import torch

from k3decode.vllm_plugin.served_check.agreement import judge_agreement
from k3decode.vllm_plugin.served_check.loud_rows import deciding_row

_POSITIONS, _WIDTH, _VOCABULARY = 192, 1024, 4096
_ROUNDING = 0.02


def _logits(rows: torch.Tensor, loud: torch.Tensor) -> torch.Tensor:
    head = 0.02 * torch.randn(_VOCABULARY, _WIDTH, generator=torch.Generator().manual_seed(7))
    head[0], head[1] = loud.float(), -loud.float()
    return rows @ head.T


def _rounded(rows: torch.Tensor, seed: int) -> torch.Tensor:
    """Rows that are off by a fiftieth of their length, as by another order of sums."""
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed))
    return rows + _ROUNDING * noise


def test_every_position_decides_and_both_tokens_are_chosen() -> None:
    rows = torch.randn(_POSITIONS, _WIDTH, generator=torch.Generator().manual_seed(1))
    loud = deciding_row(rows, seed=3)
    stock, ours, whole = (_logits(_rounded(rows, seed), loud) for seed in (2, 3, 4))
    found = judge_agreement(ours, stock, whole)
    assert found.outcome == "passed", found.sentence
    assert found.deciding_share > 0.99
    chosen = stock.argmax(-1)
    assert set(chosen.tolist()) == {0, 1}
    assert 0.35 < float(chosen.double().mean()) < 0.65


def test_rows_of_another_step_are_found_out() -> None:
    rows = torch.randn(_POSITIONS, _WIDTH, generator=torch.Generator().manual_seed(1))
    loud = deciding_row(rows, seed=3)
    stock, whole = (_logits(_rounded(rows, seed), loud) for seed in (2, 4))
    found = judge_agreement(_logits(rows.roll(1, dims=0), loud), stock, whole)
    assert found.outcome == "failed"
    assert "same greedy token" in found.sentence
    assert 0.3 < found.equal_where_deciding < 0.7

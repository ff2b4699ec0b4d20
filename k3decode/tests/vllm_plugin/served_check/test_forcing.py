from types import SimpleNamespace

import pytest
import torch

from k3decode.vllm_plugin.served_check.forcing import Forcing, HiddenRows


def _model() -> SimpleNamespace:
    head = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    return SimpleNamespace(compute_logits=lambda rows: rows @ head.T, forward=lambda rows: 2 * rows)


def test_the_given_token_is_chosen_and_logits_are_kept() -> None:
    model = _model()
    plain = model.compute_logits
    forcing = Forcing(model)
    rows = torch.eye(3)[:2]
    assert torch.equal(model.compute_logits(rows), plain(rows))
    steps: list[int] = []
    forcing.before_step = steps.append
    forcing.begin(torch.tensor([[4, 1], [0, 2]]))
    chosen = [model.compute_logits(rows).argmax(-1).tolist() for _ in range(2)]
    assert chosen == [[4, 0], [1, 2]] and steps == [1, 2]
    assert torch.equal(model.compute_logits(rows), plain(rows))
    kept = forcing.end()
    assert torch.equal(kept, plain(rows).expand(2, 2, 5))


def test_a_step_of_other_requests_is_refused() -> None:
    model = _model()
    forcing = Forcing(model)
    forcing.begin(torch.zeros(3, 1, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="each of 3 requests, found 2"):
        model.compute_logits(torch.eye(3)[:2])


def test_rows_of_a_prompt_step_become_logits() -> None:
    model = _model()
    hidden = HiddenRows(model)
    Forcing(model).begin(torch.zeros(9, 1, dtype=torch.int64))
    model.forward(torch.eye(3))
    hidden.begin()
    model.forward(torch.eye(3))
    found = hidden.end([2, 0])
    plain = _model().compute_logits(2 * torch.eye(3))
    assert torch.equal(found, plain[[2, 0]])


@pytest.mark.parametrize("before", [True, False])
def test_rows_in_front_of_the_lm_head_are_normed_where_the_engine_does_it_there(
    *, before: bool
) -> None:
    model = _model()
    model.needs_norm_in_logits = before
    model.model = SimpleNamespace(norm=lambda rows, _: rows + 1)
    hidden = HiddenRows(model)
    hidden.begin()
    model.forward(torch.eye(3))
    assert torch.equal(hidden.normed([2, 0]), (2 * torch.eye(3) + int(before))[[2, 0]])
    assert torch.equal(hidden.end([1]), _model().compute_logits(2 * torch.eye(3))[[1]])

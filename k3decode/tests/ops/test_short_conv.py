import pytest
import torch

from k3decode.difference import relative_error
from k3decode.ops.short_conv.reference import short_conv_sequence, short_conv_step


def _draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_last_weight_multiplies_the_newest_input() -> None:
    taps = torch.tensor([[[1.0], [2.0], [3.0]]])
    weight = torch.tensor([[1000.0, 100.0, 10.0, 1.0]])
    out, after = short_conv_step(torch.tensor([[4.0]]), taps, weight)
    assert out.item() == 1234.0  # SiLU of a large value is the value
    assert after.flatten().tolist() == [2.0, 3.0, 4.0]


# Shorter than, as long as, and longer than the stored taps.
@pytest.mark.parametrize("length", [1, 2, 3, 4, 9])
def test_sequence_equals_steps(length: int) -> None:
    x, taps, weight = _draw(0, 2, length, 5), _draw(1, 2, 3, 5), _draw(2, 5, 4)
    whole, whole_taps = short_conv_sequence(x, taps, weight)
    rows, step_taps = [], taps
    for t in range(length):
        row, step_taps = short_conv_step(x[:, t], step_taps, weight)
        rows.append(row)
    assert relative_error(whole, torch.stack(rows, dim=1)) < 1e-6
    assert torch.equal(whole_taps, step_taps)


def test_empty_sequence_keeps_the_taps() -> None:
    taps, weight = _draw(1, 2, 3, 5), _draw(2, 5, 4)
    out, after = short_conv_sequence(torch.zeros(2, 0, 5), taps, weight)
    assert out.shape == (2, 0, 5)
    assert torch.equal(after, taps)

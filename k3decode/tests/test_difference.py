import torch

from k3decode.difference import relative_error


def test_relative_error_of_equal_tensors_is_zero() -> None:
    assert relative_error(torch.ones(3), torch.ones(3)) == 0.0
    assert relative_error(torch.zeros(3), torch.zeros(3)) == 0.0


def test_relative_error_is_the_ratio_of_norms() -> None:
    assert relative_error(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0])) == 0.1


def test_relative_error_of_broken_values_is_infinite() -> None:
    nan = torch.tensor([float("nan")])
    assert relative_error(nan, nan) == float("inf")
    assert relative_error(torch.ones(2), torch.ones(1, 2)) == float("inf")
    assert relative_error(torch.ones(2), torch.zeros(2)) == float("inf")

"""How far two tensors are apart, as one number; for tests of a form against another."""

import torch
from torch import Tensor

__all__ = ["relative_error"]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """L2 norm of the difference over the L2 norm of what was expected, in fp64.

    Infinite when shapes differ or a value of either is not finite: forms that agree only on being
    broken do not agree.
    """
    if actual.shape != expected.shape:
        return float("inf")
    actual, expected = actual.double(), expected.double()
    if not bool(torch.isfinite(actual).all() and torch.isfinite(expected).all()):
        return float("inf")
    norm = float(expected.norm())
    distance = float((actual - expected).norm())
    if norm == 0.0:
        return 0.0 if distance == 0.0 else float("inf")
    return distance / norm

"""Reference of the absorption of the key projection, up to the number format of the result."""

import torch
from torch import Tensor

__all__ = ["absorb"]


def absorb(query: Tensor, key_up: Tensor) -> Tensor:
    """Absorb W_UK [H, N, L] into queries [T, H, N + R]; returns [T, H, L + R]."""
    nope = key_up.shape[1]
    absorbed = torch.einsum("thn,hnl->thl", query[..., :nope], key_up)
    return torch.cat([absorbed, query[..., nope:]], dim=-1)

"""Reference of RMSNorm, used inside several ops."""

import torch
from torch import Tensor

__all__ = ["rms_norm"]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalise over the last axis in fp32; x [..., D], weight [D]."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight

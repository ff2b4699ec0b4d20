"""Reference of attention over latent rows: one query row, any stretch of its tokens.

The second form names the roundings of a kernel: products of 16 columns are added in FP32 in the
order of the columns, and each share, relative to the largest one, is rounded to the format of the
matrix products before it meets the latents, but not before it is summed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Attended", "attend", "attend_rounded"]

_PRODUCT_K = 16


@dataclass(frozen=True)
class Attended:
    """Attention over a stretch of tokens."""

    latents: Tensor
    """[H, L]"""
    lse: Tensor
    """Natural logarithm of the sum of exponentials, [H]."""


def attend(query: Tensor, rows: Tensor, latent: int, scale: float) -> Attended:
    """Attend with absorbed queries [H, L + R] to cache rows [S, L + R], S at least 1."""
    scores = scale * (query @ rows.T)
    highest = scores.amax(-1, keepdim=True)
    # Not torch.logsumexp, which answers infinity where a score is infinite and no share is defined.
    total = torch.exp(scores - highest).sum(-1, keepdim=True)
    return Attended(
        latents=torch.softmax(scores, dim=-1) @ rows[:, :latent],
        lse=(highest + torch.log(total))[:, 0],
    )


def attend_rounded(
    query: Tensor, rows: Tensor, latent: int, scale: float, share_dtype: torch.dtype
) -> Attended:
    """The same in FP32 with the roundings of a kernel; arguments and result as `attend`."""
    query, rows = query.float(), rows.float()
    products = torch.zeros(query.shape[0], rows.shape[0], device=query.device)
    for first in range(0, query.shape[1], _PRODUCT_K):
        columns = slice(first, first + _PRODUCT_K)
        products = products + query[:, columns] @ rows[:, columns].T
    scores = products * scale
    highest = scores.amax(-1, keepdim=True)
    shares = torch.exp(scores - highest)
    total = shares.sum(-1, keepdim=True)
    latents = shares.to(share_dtype).float() @ rows[:, :latent] / total
    return Attended(latents=latents, lse=(highest + torch.log(total))[:, 0])

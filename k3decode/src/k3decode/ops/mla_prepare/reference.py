"""Reference of a step's preparation of MLA, up to the number format of the cache."""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.ops.rms_norm.reference import rms_norm

__all__ = ["PreparedRows", "prepare_rows"]


@dataclass(frozen=True)
class PreparedRows:
    """What a step keeps of its projected rows."""

    query: Tensor
    """Normalised compressed query, [T, Q]."""
    row: Tensor
    """Cache row: normalised compressed row | shared columns, [T, L + R]."""


def prepare_rows(
    projection: Tensor, query_norm: Tensor, latent_norm: Tensor, shared: int, norm_eps: float
) -> PreparedRows:
    """Prepare projected rows [T, at least Q + L + R], columns query Q | compressed L | shared R."""
    rank, latent = query_norm.shape[0], latent_norm.shape[0]
    raw_query, raw_row, columns = projection[:, : rank + latent + shared].split(
        [rank, latent, shared], dim=-1
    )
    row = rms_norm(raw_row, latent_norm, norm_eps)
    return PreparedRows(
        query=rms_norm(raw_query, query_norm, norm_eps), row=torch.cat([row, columns], dim=-1)
    )

"""Reference of the embedding gather over one shard of the vocabulary."""

import torch
from torch import Tensor

__all__ = ["embed"]


def embed(tokens: Tensor, table: Tensor, first_token: int) -> Tensor:
    """Gather rows.

    Args:
        tokens: ids, integers, [M].
        table: rows of the ids first_token .. first_token + V - 1, [V, D].
        first_token: id of the table's first row.

    Returns:
        Rows [M, D]; zeros where the id is not in the table.
    """
    local = tokens.long() - first_token
    inside = (local >= 0) & (local < table.shape[0])
    rows = table[torch.where(inside, local, 0)]
    return torch.where(inside[:, None], rows, torch.zeros_like(rows))

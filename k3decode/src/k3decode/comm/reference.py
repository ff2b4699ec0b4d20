"""What exchanges give, in plain torch and one process: the specification of the kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place

__all__ = ["gathered", "leave", "owner_columns", "partial_sum", "sendable", "take"]

_MISSING = -1
_OTHER_NAN = 0x7FFF7FFF


def sendable(rows: Tensor) -> Tensor:
    """Words of rows as they travel, int32 [M, words]: none of them is all ones."""
    words = rows.contiguous().view(torch.int32)
    return torch.where(words == _MISSING, _OTHER_NAN, words)


def partial_sum(partials: Sequence[Tensor]) -> Tensor:
    """Sum of BF16 [M, W] of all ranks, in the order of ranks, FP32."""
    total = torch.zeros_like(partials[0], dtype=torch.float32)
    for partial in partials:
        total = total + partial.float()
    return total


def gathered(shares: Sequence[Tensor]) -> Tensor:
    """Columns of all ranks side by side."""
    return torch.cat(list(shares), dim=-1)


def owner_columns(width: int, rank: int, ranks: int) -> slice:
    """Columns of a gathered row that a rank brings."""
    share = width // ranks
    return slice(rank * share, (rank + 1) * share)


def leave(place: Place, words: Tensor, *, slot: int, columns: slice) -> None:
    """Write words, int32 [M, ...], of the launching rank into the memory of every other rank."""
    for rank, memory in enumerate(place.outgoing):
        if rank != place.rank:
            memory[slot][:, columns] = words


def take(place: Place, *, slot: int, columns: slice) -> Tensor:
    """Words that another rank has left, whose place then is free again.

    Raises:
        RuntimeError: some have not arrived.
    """
    words = place.words[slot][:, columns].clone()
    if bool((words == _MISSING).any()):
        raise RuntimeError(f"expected words of slot {slot}, columns {columns}, found some missing")
    place.words[slot][:, columns] = _MISSING
    return words

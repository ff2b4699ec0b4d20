"""Weights that a launch brings into the L2 cache for a later one, while it leaves memory idle."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.host.inputs import InputCheck

__all__ = ["RowPrefetch", "check_prefetch", "prefetch_counts"]

_VECTOR_WIDTH = 8


@dataclass(frozen=True)
class RowPrefetch:
    """Some columns of each row of a weight."""

    rows: Tensor
    """BF16 [N, columns], a view that starts at the first column wanted; any row stride that is a
    multiple of 8, columns too."""


def check_prefetch(check: InputCheck, prefetch: RowPrefetch | None) -> None:
    """Add what is wrong with a prefetch to a launch's problems."""
    if prefetch is None:
        return
    check.tensor(
        "prefetch",
        prefetch.rows,
        dtype=torch.bfloat16,
        shape=[None, None],
        stride_multiple=_VECTOR_WIDTH,
    )
    columns = prefetch.rows.shape[-1] if prefetch.rows.ndim else 0
    check.require(
        columns % _VECTOR_WIDTH == 0,
        f"prefetch: expected columns in a multiple of {_VECTOR_WIDTH}, found {columns}",
    )


def prefetch_counts(prefetch: RowPrefetch | None) -> Sequence[int]:
    """Row stride in bytes, rows and bytes of each, as the kernels take them; zeros for none."""
    if prefetch is None:
        return (0, 0, 0)
    rows = prefetch.rows
    return (2 * rows.stride(0), rows.shape[0], 2 * rows.shape[1])

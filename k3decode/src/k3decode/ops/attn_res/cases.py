"""Cases of AttnRes.

Every number of blocks occurs with every use K3 makes of it, at one odd number of rows; production
has the deepest layer at the batches that are captured. Blocks that are no source hold NaN, and so
do two rows behind the last and, where strides are padded, the columns between two rows. Not here:
widths other than K3's, which no model uses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.attn_res.config import AttnResConfig
from k3decode.ops.attn_res.launch import variants
from k3decode.ops.attn_res.trial import AttnResInputs, attn_res_trial

__all__ = ["CASES", "CaseShape", "case_inputs"]

_DIMS = K3Dims()
# Rows behind the last one that must stay as they are.
_SPARE_ROWS = 2


@dataclass(frozen=True)
class CaseShape:
    """Rows and variant of a case, and what is unusual about it."""

    rows: int
    config: AttnResConfig
    row_padding: int = 0
    alter: Callable[[Tensor, Tensor, Tensor], None] | None = None
    """Overwrites parts of prefix, pending and blocks."""


def case_inputs(shape: CaseShape) -> AttnResInputs:
    """Whole allocations on the CPU, spare rows and padding columns poisoned."""
    rows, width = shape.rows, shape.config.hidden_size
    generator = torch.Generator().manual_seed(rows * 100 + shape.config.blocks)
    allocated = (rows + _SPARE_ROWS, width + shape.row_padding)
    cpu = torch.device("cpu")

    def rows_of(*lead: int) -> Tensor:
        buffer = poisoned(*lead, *allocated, dtype=torch.bfloat16, device=cpu)
        values = torch.randn(*lead, rows, width, generator=generator)
        # Rows of different size, so that a wrong scale or source cannot hide.
        sizes = torch.exp(torch.randn(*lead, rows, 1, generator=generator))
        buffer[..., :rows, :width] = (values * sizes).to(torch.bfloat16)
        return buffer

    blocks = rows_of(_DIMS.num_residual_blocks)
    blocks[shape.config.blocks :] = float("nan")
    source_norm = torch.randn(width, generator=generator).to(torch.bfloat16)
    query = (torch.randn(width, generator=generator) / width**0.5).to(torch.bfloat16)
    inputs = AttnResInputs(
        config=shape.config,
        rows=rows,
        prefix=rows_of(),
        pending=rows_of(),
        blocks=blocks,
        direction=source_norm.float() * query.float(),
        output_norm=torch.randn(width, generator=generator).to(torch.bfloat16),
        out=poisoned(*allocated, dtype=torch.bfloat16, device=cpu),
    )
    if shape.config.reset:
        # The old prefix must not take part.
        inputs.prefix[:] = float("nan")
    if shape.alter is not None:
        live = (slice(0, rows), slice(0, width))
        shape.alter(inputs.prefix[live], inputs.pending[live], inputs.blocks[:, live[0], live[1]])
    return inputs


def _prepare(shape: CaseShape, launch: Launch, device: torch.device) -> Trial:
    return attn_res_trial(case_inputs(shape), launch, device)


def _signed_zeros(prefix: Tensor, pending: Tensor, blocks: Tensor) -> None:
    prefix[0] = -0.0
    pending[0] = -0.0
    blocks[:2, 0] = -0.0


def _denormals(prefix: Tensor, pending: Tensor, blocks: Tensor) -> None:
    smallest = 2.0**-133
    for rows in (prefix[0], pending[0], blocks[0, 0], blocks[1, 0]):
        rows[:] = smallest * (1 + torch.arange(rows.shape[0]) % 5)


def _infinities(prefix: Tensor, pending: Tensor, blocks: Tensor) -> None:
    prefix[0, 3] = float("inf")
    pending[1, 5] = float("-inf")
    blocks[0, 2, 7] = float("nan")


def _equal_sources(prefix: Tensor, pending: Tensor, blocks: Tensor) -> None:
    pending[:] = 0.0
    blocks[:2] = prefix


def _case(name: str, group: CaseGroup, shape: CaseShape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    configs = variants(_DIMS)
    last = _DIMS.num_residual_blocks
    deepest = configs[f"add_{last}"]
    two = configs["add_2"]
    cases = [_case("add_1_m3", "smoke", CaseShape(3, configs["add_1"]))]
    cases += [_case(f"{name}_m11", "corner", CaseShape(11, c)) for name, c in configs.items()]
    cases += [
        _case("one_row", "corner", CaseShape(1, deepest)),
        _case("padded_rows", "corner", CaseShape(5, configs["write_2"], row_padding=24)),
        _case("signed_zeros", "corner", CaseShape(3, two, alter=_signed_zeros)),
        _case("denormals", "corner", CaseShape(3, two, alter=_denormals)),
        _case("infinities", "corner", CaseShape(4, two, alter=_infinities)),
        _case("equal_sources", "corner", CaseShape(3, two, alter=_equal_sources)),
    ]
    cases += [
        _case(f"{kind}_{last}_m{rows}", "production", CaseShape(rows, configs[f"{kind}_{last}"]))
        for kind in ("add", "final")
        for rows in SERVED_ROWS
    ]
    cases += [
        _case(f"rows_m{rows}", "rows", CaseShape(rows, configs["write_4"]))
        for rows in range(1, MAX_ROWS + 1)
    ]
    return tuple(cases)


CASES = _cases()

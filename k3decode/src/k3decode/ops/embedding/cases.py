"""Cases of the embedding gather; all of it is judged bit by bit.

The table has fewer rows than a shard of K3's, which changes nothing but the memory a case takes:
ids reach both ends of the table and beyond them. Table rows hold NaN patterns, denormals and signed
zeros, because a copy must keep every bit.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.embedding.config import EmbeddingConfig
from k3decode.ops.embedding.cost import embedding_cost
from k3decode.ops.embedding.launch import variants
from k3decode.ops.embedding.reference import embed
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise

__all__ = ["CASES", "replay"]

(_CONFIG,) = variants(K3Dims()).values()
_TABLE_ROWS = 1024
_SPARE_ROWS = 1


@dataclass(frozen=True)
class _Shape:
    rows: int
    first_token: int = 0
    row_padding: int = 0
    outside: bool = False
    """Whether every other id is not in the table."""


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    rows, width = shape.rows, _CONFIG.hidden_size
    generator = torch.Generator().manual_seed(rows)
    # Every bit pattern of BF16 occurs, NaN included.
    bits = torch.randint(
        -(1 << 15), 1 << 15, (_TABLE_ROWS, width + shape.row_padding), generator=generator
    )
    allocated = bits.to(torch.int16).view(torch.bfloat16)
    tokens = torch.randint(0, _TABLE_ROWS, (rows,), generator=generator, dtype=torch.int32)
    tokens += shape.first_token
    tokens[-1] = shape.first_token + _TABLE_ROWS - 1
    if shape.outside:
        wild = torch.tensor([-1, shape.first_token - 1, shape.first_token + _TABLE_ROWS, 1 << 30])
        tokens[::2] = wild[torch.arange(tokens[::2].shape[0]) % 4].to(torch.int32)
    return _trial(
        tokens,
        allocated,
        launch,
        device,
        width=width,
        first_token=shape.first_token,
    )


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    table = call.tensor("table")
    return _trial(
        call.tensor("tokens"),
        table,
        launch,
        device,
        width=table.shape[1],
        first_token=call.whole("first_token"),
    )


def _trial(
    tokens: Tensor,
    allocated: Tensor,
    launch: Launch,
    device: torch.device,
    *,
    width: int,
    first_token: int,
) -> Trial:
    """Trial on a table whose first columns are used; both tensors lie on the CPU."""
    rows, (table_rows, row_stride) = tokens.shape[0], allocated.shape
    on_device = (tokens.to(device), allocated.to(device)[:, :width])
    out = poisoned(rows + _SPARE_ROWS, row_stride, dtype=torch.bfloat16, device=device)
    untouched = out.cpu().clone()

    def run() -> None:
        launch(*on_device, out[:rows, :width], first_token=first_token)

    def judge() -> tuple[Judgement, ...]:
        expected = untouched.clone()
        expected[:rows, :width] = embed(tokens, allocated[:, :width], first_token)
        return (judge_bitwise("out", out, expected),)

    inside = embed(tokens, torch.ones(table_rows, 1), first_token)[:, 0] == 1
    config = EmbeddingConfig(hidden_size=width)
    cost = embedding_cost(config, rows, distinct_rows=int(tokens[inside].unique().numel()))
    return Trial(run=run, judge=judge, cost=cost)


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("one_row", "corner", _Shape(1)),
    _case("padded_rows", "corner", _Shape(5, row_padding=8)),
    _case("second_shard", "corner", _Shape(5, first_token=20480)),
    _case("ids_outside", "corner", _Shape(9, first_token=20480, outside=True)),
    *(_case(f"m{rows}", "production", _Shape(rows)) for rows in SERVED_ROWS),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

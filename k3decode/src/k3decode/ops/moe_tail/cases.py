"""Cases of the MoE tail.

A sum of two BF16 numbers rounded once is what torch computes, so it is judged bit by bit; NaN is
left to its own case, since processors differ in its bits. Between padded rows stands NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.moe_tail.cost import moe_tail_cost
from k3decode.ops.moe_tail.launch import config_for
from k3decode.ops.moe_tail.reference import moe_tail
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES", "replay"]

_CONFIG = config_for(K3Dims())


@dataclass(frozen=True)
class _Shape:
    rows: int
    row_padding: int = 0
    in_place: bool = False
    finite: bool = True
    alter: Callable[[Tensor, Tensor], None] | None = None


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    rows, width = shape.rows, _CONFIG.width
    generator = torch.Generator().manual_seed(rows)
    cpu, bf16 = torch.device("cpu"), torch.bfloat16

    def rows_of(scale: float) -> Tensor:
        allocated = poisoned(rows + 1, width + shape.row_padding, dtype=bf16, device=cpu)
        values = scale * torch.randn(rows, width, generator=generator)
        allocated[:rows, :width] = values.to(bf16)
        return allocated

    routed, shared = rows_of(1.0), rows_of(4.0)
    if shape.alter is not None:
        shape.alter(routed, shared)
    return _trial(shape, routed, shared, launch, device)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument, or is of another width than K3's.
    """
    routed, shared = (
        torch.nn.functional.pad(call.tensor(name), (0, 0, 0, 1), value=torch.nan)
        for name in ("routed", "shared")
    )
    if call.whole("config.width") != _CONFIG.width:
        raise RecordingError(
            f"{call.op}, {call.name}: expected rows of {_CONFIG.width} columns, found "
            f"{call.whole('config.width')}"
        )
    rows = routed.shape[0] - 1
    finite = bool((routed[:rows].isfinite() & shared[:rows].isfinite()).all())
    return _trial(_Shape(rows, finite=finite), routed, shared, launch, device)


def _trial(
    shape: _Shape, routed: Tensor, shared: Tensor, launch: Launch, device: torch.device
) -> Trial:
    """Trial on rows that one more follows; both tensors lie on the CPU."""
    rows, width, bf16 = shape.rows, _CONFIG.width, torch.bfloat16
    first, second = routed.to(device, copy=True), shared.to(device, copy=True)
    target = first if shape.in_place else torch.full_like(first, torch.nan)
    before = target.clone()

    def run() -> None:
        launch(*(t[:rows, :width] for t in (first, second, target)), config=_CONFIG)

    def judge() -> tuple[Judgement, ...]:
        around = target.clone()
        around[:rows, :width] = before[:rows, :width]
        found = target[:rows, :width]
        exact = moe_tail(routed[:rows, :width].double(), shared[:rows, :width].double())
        rounded = moe_tail(routed[:rows, :width].float(), shared[:rows, :width].float()).to(bf16)
        close = judge_close("out", found, reference=exact, same_dtype=rounded)
        same = judge_bitwise("out", found, rounded)
        return (same if shape.finite else close, judge_bitwise("around out", around, before))

    return Trial(run=run, judge=judge, cost=moe_tail_cost(rows, width))


def _signed_zeros(routed: Tensor, shared: Tensor) -> None:
    routed[0], shared[0] = -0.0, -0.0
    routed[1], shared[1] = 0.0, -0.0


def _denormals(routed: Tensor, shared: Tensor) -> None:
    routed[0], shared[0] = 2.0**-133, 2.0**-132
    routed[1], shared[1] = 2.0**-126, -(2.0**-133)


def _ties(routed: Tensor, shared: Tensor) -> None:
    # Halfway between two BF16 numbers, above an even and above an odd one.
    routed[0], shared[0] = 1.0, 2.0**-8
    routed[1], shared[1] = 1.0 + 2.0**-7, 2.0**-8


def _unbounded(routed: Tensor, shared: Tensor) -> None:
    routed[0, 3], shared[0, 4] = torch.nan, torch.inf
    routed[1, 5], shared[1, 5] = torch.inf, -torch.inf


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("one_row", "corner", _Shape(1)),
    _case("padded_rows", "corner", _Shape(5, row_padding=24)),
    _case("in_place", "corner", _Shape(4, row_padding=8, in_place=True)),
    _case("signed_zeros", "corner", _Shape(3, alter=_signed_zeros)),
    _case("denormals", "corner", _Shape(3, alter=_denormals)),
    _case("ties", "corner", _Shape(3, alter=_ties)),
    _case("unbounded", "corner", _Shape(4, finite=False, alter=_unbounded)),
    *(_case(f"m{rows}", "production", _Shape(rows)) for rows in SERVED_ROWS),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

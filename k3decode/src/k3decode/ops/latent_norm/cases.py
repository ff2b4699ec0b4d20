"""Cases of the latent norm.

Rows of very different size, zeros and infinities; written beside and in place. Between padded rows
stands NaN. Not here: rows whose squares leave FP32, which no sum of bounded activations makes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.latent_norm.config import LatentNormConfig
from k3decode.ops.latent_norm.cost import latent_norm_cost
from k3decode.ops.latent_norm.launch import config_for
from k3decode.ops.rms_norm.reference import rms_norm
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES", "replay"]

_CONFIG = config_for(K3Dims())


@dataclass(frozen=True)
class _Shape:
    rows: int
    row_padding: int = 0
    in_place: bool = False
    alter: Callable[[Tensor], None] | None = None


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    rows, width = shape.rows, _CONFIG.width
    generator = torch.Generator().manual_seed(rows)
    cpu, bf16 = torch.device("cpu"), torch.bfloat16
    allocated = poisoned(rows + 1, width + shape.row_padding, dtype=bf16, device=cpu)
    summed = allocated[:rows, :width]
    summed[:] = (2 * torch.randn(rows, width, generator=generator)).to(bf16)
    if shape.alter is not None:
        shape.alter(summed)
    weight = (1 + torch.randn(width, generator=generator) / 4).to(bf16)
    return _trial(_CONFIG, allocated, weight, launch, device, in_place=shape.in_place)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    summed, weight = call.tensor("summed"), call.tensor("weight")
    config = LatentNormConfig(width=weight.shape[0], eps=call.number("config.eps"))
    allocated = torch.nn.functional.pad(summed, (0, 0, 0, 1), value=torch.nan)
    return _trial(config, allocated, weight, launch, device, in_place=False)


def _trial(
    config: LatentNormConfig,
    allocated: Tensor,
    weight: Tensor,
    launch: Launch,
    device: torch.device,
    *,
    in_place: bool,
) -> Trial:
    """Trial on rows that one more follows; both tensors lie on the CPU."""
    rows, width = allocated.shape[0] - 1, config.width
    summed = allocated[:rows, :width]
    source, weight_on_device = allocated.to(device, copy=True), weight.to(device)
    target = source if in_place else torch.full_like(source, torch.nan)
    before = target.clone()

    def run() -> None:
        launch(source[:rows, :width], weight_on_device, target[:rows, :width], config=config)

    def judge() -> tuple[Judgement, ...]:
        around = target.clone()
        around[:rows, :width] = before[:rows, :width]
        rounded = rms_norm(summed.float(), weight.float(), config.eps)
        return (
            judge_close(
                "out",
                target[:rows, :width],
                reference=rms_norm(summed.double(), weight.double(), config.eps),
                same_dtype=rounded.to(torch.bfloat16),
            ),
            judge_bitwise("around out", around, before),
        )

    return Trial(run=run, judge=judge, cost=latent_norm_cost(rows, width))


def _signed_zeros(summed: Tensor) -> None:
    summed[0] = -0.0
    summed[1, ::2] = -0.0


def _small_and_large(summed: Tensor) -> None:
    summed[0] *= 2.0**-20
    summed[1] *= 2.0**40
    summed[2] = 2.0**-130


def _one_large_column(summed: Tensor) -> None:
    # The last column of the last warp carries nearly all of the sum.
    summed[:, -1] = 512.0


def _unbounded(summed: Tensor) -> None:
    summed[0, 3] = torch.nan
    summed[1, 5] = torch.inf


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("one_row", "corner", _Shape(1)),
    _case("padded_rows", "corner", _Shape(5, row_padding=24)),
    _case("in_place", "corner", _Shape(4, row_padding=8, in_place=True)),
    _case("signed_zeros", "corner", _Shape(3, alter=_signed_zeros)),
    _case("small_and_large", "corner", _Shape(4, alter=_small_and_large)),
    _case("one_large_column", "corner", _Shape(2, alter=_one_large_column)),
    _case("unbounded", "corner", _Shape(3, alter=_unbounded)),
    *(_case(f"m{rows}", "production", _Shape(rows)) for rows in SERVED_ROWS),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

"""Cases of the SiTU activation.

Values from denormals to infinities, so that both tangents and the sigmoid are seen where they are
linear, curved and flat; the reference runs on the same BF16 values. Widths are those of the shared
expert and of the dense layer. Between padded rows stands NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.dense_mlp.reference import situ
from k3decode.ops.situ.config import SituConfig
from k3decode.ops.situ.cost import situ_cost
from k3decode.ops.situ.launch import config_for
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES", "replay"]

_DIMS = K3Dims()
_CONFIG = config_for(_DIMS)
_RANKS = (8, 16, 1)


@dataclass(frozen=True)
class _Shape:
    rows: int
    width: int
    row_padding: int = 0
    alter: Callable[[Tensor], None] | None = None
    """Overwrites parts of gate and up."""


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    rows, width = shape.rows, shape.width
    generator = torch.Generator().manual_seed(rows + width)
    cpu, bf16 = torch.device("cpu"), torch.bfloat16
    allocated = poisoned(rows, 2 * width + shape.row_padding, dtype=bf16, device=cpu)
    gate_up = allocated[:, : 2 * width]
    gate_up[:] = (3 * torch.randn(rows, 2 * width, generator=generator)).to(bf16)
    if shape.alter is not None:
        shape.alter(gate_up)
    return _trial(_CONFIG, allocated, width, launch, device)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    gate_up = call.tensor("gate_up")
    config = SituConfig(
        beta=call.number("config.beta"), linear_beta=call.number("config.linear_beta")
    )
    return _trial(config, gate_up, gate_up.shape[1] // 2, launch, device)


def _trial(
    config: SituConfig, allocated: Tensor, width: int, launch: Launch, device: torch.device
) -> Trial:
    """Trial on gate and up in the first columns of a tensor on the CPU."""
    rows, padding = allocated.shape[0], allocated.shape[1] - 2 * width
    gate_up, on_device = allocated[:, : 2 * width], allocated.to(device)
    out = poisoned(rows + 1, width + padding, dtype=torch.bfloat16, device=device)
    before = out.clone()

    def run() -> None:
        launch(on_device[:, : 2 * width], out[:rows, :width], config=config)

    def judge() -> tuple[Judgement, ...]:
        around = out.clone()
        around[:rows, :width] = before[:rows, :width]
        return (
            # One scale per column: tiny and large columns share a row here.
            judge_close(
                "out",
                out[:rows, :width, None],
                reference=_expected(gate_up, config, torch.float64)[..., None],
                same_dtype=_expected(gate_up, config, torch.float32).to(torch.bfloat16)[..., None],
            ),
            judge_bitwise("around out", around, before),
        )

    return Trial(run=run, judge=judge, cost=situ_cost(rows, width))


def _expected(gate_up: Tensor, config: SituConfig, dtype: torch.dtype) -> Tensor:
    gate, up = gate_up.to(dtype).chunk(2, dim=-1)
    return situ(gate, up, config.beta, config.linear_beta)


def _every_magnitude(gate_up: Tensor) -> None:
    columns = torch.arange(gate_up.shape[1])
    exponents = columns % 140 - 130.0
    signs = 1 - 2.0 * (columns // 7 % 2)
    gate_up[0] = signs * torch.exp2(exponents)


def _unbounded(gate_up: Tensor) -> None:
    half = gate_up.shape[1] // 2
    gate_up[0, :4] = torch.tensor([torch.inf, -torch.inf, torch.nan, 1.0])
    gate_up[0, half : half + 5] = torch.tensor([1.0, 1.0, 1.0, torch.nan, torch.inf])
    gate_up[1, half:] = -torch.inf
    gate_up[2, :half] = -torch.inf


def _signed_zeros(gate_up: Tensor) -> None:
    half = gate_up.shape[1] // 2
    gate_up[0] = -0.0
    gate_up[1, :half] = 0.0
    gate_up[2, half:] = -0.0


def _saturated(gate_up: Tensor) -> None:
    gate_up[:] = gate_up.sign() * 3e4


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    shared = {ranks: _DIMS.shard(ranks).shared_intermediate_size for ranks in _RANKS}
    dense = {ranks: _DIMS.shard(ranks).dense_intermediate_size for ranks in _RANKS}
    corner = [
        ("one_row", _Shape(1, shared[16])),
        ("one_vector", _Shape(2, 8)),
        ("odd_width", _Shape(3, 1032)),
        ("padded_rows", _Shape(3, shared[16], row_padding=40)),
        ("every_magnitude", _Shape(2, shared[8], alter=_every_magnitude)),
        ("unbounded", _Shape(4, 64, alter=_unbounded)),
        ("signed_zeros", _Shape(3, 64, alter=_signed_zeros)),
        ("saturated", _Shape(2, 64, alter=_saturated)),
    ]
    cases = [_case("m3", "smoke", _Shape(3, shared[8]))]
    cases += [_case(name, "corner", shape) for name, shape in corner]
    cases += [
        _case(f"{part}_tp{ranks}_m{rows}", "production", _Shape(rows, widths[ranks]))
        for part, widths in (("shared", shared), ("dense", dense))
        for ranks in _RANKS
        for rows in (SERVED_ROWS if (part, ranks) == ("shared", 8) else (1, 8, 64))
    ]
    cases += [
        _case(f"rows_m{rows}", "rows", _Shape(rows, shared[16])) for rows in range(1, MAX_ROWS + 1)
    ]
    return tuple(cases)


CASES = _cases()

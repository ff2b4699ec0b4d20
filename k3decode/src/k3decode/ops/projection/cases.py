"""Cases of projections.

Weights, activations and what surrounds them are made on the device: K3's largest weight has 147
million values. Columns between padded rows and the row behind the last token hold NaN. Weights of
few rows go through clusters of CTAs, many columns through several phases of activations; corner
cases have both. Each case is launched twice and must give the same bits. Not here: weights whose
columns are no multiple of 64, which the launch refuses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.cost import projection_cost
from k3decode.ops.projection.reference import projection, projection_situ
from k3decode.ops.projection.shapes import ProjectionShape, k3_projections
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES", "replay"]

_DIMS = K3Dims()
_BOUNDS = SituBounds(_DIMS.situ_beta, _DIMS.situ_linear_beta)
_TOKENS = (1, 8, 64)
# Between them these weights are served by every row of the table of variants.
_AT_MORE_TOKENS = {
    **dict.fromkeys(
        [
            "tp16_kda_in",
            "tp8_f_b",
            "tp8_router_latent",
            "tp16_router_latent",
            "tp8_latent_up",
            "tp8_shared_gate_up",
            "tp16_lm_head",
            "tp16_q_b",
        ],
        (2, 16, 32),
    ),
    **dict.fromkeys(
        ["tp8_own_front", "tp8_own_tail", "tp16_own_front", "tp16_own_tail"],
        (2, 3, 4, 16, 32),
    ),
    **dict.fromkeys(
        [
            "tp8_kda_in",
            "tp8_o_proj",
            "tp8_shared_situ",
            "tp8_whole_front",
            "tp8_lm_head",
            "tp8_logits",
        ],
        (*SERVED_ROWS, 32),
    ),
}


@dataclass(frozen=True)
class _Shape:
    tokens: int
    weight: ProjectionShape
    padding: int = 0
    """Extra values behind each row of activations, weights and outputs, a multiple of 8."""
    alter: Callable[[Tensor, Tensor], None] | None = None
    """Overwrites parts of activations and weights."""


@dataclass(frozen=True)
class _Buffers:
    """Everything on one device; whole allocations behind the views."""

    activation: Tensor
    weight: Tensor
    out: Tensor | None
    fp32_out: Tensor | None


def _inside(values: Tensor, *, spare_rows: int, padding: int) -> Tensor:
    """Values [rows, columns] inside an allocation that is NaN elsewhere; returns all of it."""
    rows, columns = values.shape
    size = (rows + spare_rows, columns + padding)
    whole = poisoned(*size, dtype=values.dtype, device=values.device)
    whole[:rows, :columns] = values
    return whole


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    weight = shape.weight
    generator = torch.Generator(device).manual_seed(1000 * weight.rows + shape.tokens)

    def normal(rows: int) -> Tensor:
        values = torch.randn(rows, weight.columns, generator=generator, device=device)
        return values.to(torch.bfloat16)

    activation = normal(shape.tokens)
    weights = normal(weight.rows) * weight.columns**-0.5
    if shape.alter is not None:
        shape.alter(activation, weights)
    return _trial(shape, activation, weights, _BOUNDS if weight.situ else None, launch)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    activation, weight = (call.tensor(name).to(device) for name in ("activation", "weight"))
    fp32_out = call.optional_tensor("fp32_out")
    bounds = None
    if "situ.beta" in call.arguments:
        bounds = SituBounds(call.number("situ.beta"), call.number("situ.linear_beta"))
    shape = ProjectionShape(
        rows=weight.shape[0],
        columns=weight.shape[1],
        fp32_rows=0 if fp32_out is None else fp32_out.shape[1],
        situ=bounds is not None,
        plain_rows=call.whole("plain_rows") if "plain_rows" in call.arguments else 0,
    )
    return _trial(_Shape(activation.shape[0], shape), activation, weight, bounds, launch)


def _trial(
    shape: _Shape, activation: Tensor, weights: Tensor, bounds: SituBounds | None, launch: Launch
) -> Trial:
    weight, tokens, device = shape.weight, shape.tokens, activation.device
    narrow = weight.bf16_outputs

    def output(columns: int, dtype: torch.dtype) -> Tensor | None:
        size = (tokens + 1, columns + shape.padding)
        return poisoned(*size, dtype=dtype, device=device) if columns else None

    used = _Buffers(
        activation=_inside(activation, spare_rows=1, padding=shape.padding),
        weight=_inside(weights, spare_rows=0, padding=shape.padding),
        fp32_out=output(weight.fp32_rows, torch.float32),
        out=output(narrow, torch.bfloat16),
    )

    def view(whole: Tensor | None) -> Tensor | None:
        return None if whole is None else whole[:tokens, : whole.shape[1] - shape.padding]

    def run() -> None:
        launch(
            used.activation[:tokens, : weight.columns],
            used.weight[:, : weight.columns],
            view(used.out),
            view(used.fp32_out),
            situ=bounds,
            plain_rows=weight.plain_rows,
        )

    def judge() -> tuple[Judgement, ...]:
        outputs = [whole for whole in (used.fp32_out, used.out) if whole is not None]
        once = [whole.clone() for whole in outputs]
        found = _judge(shape, used, bounds)
        run()
        return found + tuple(
            judge_bitwise("second launch", again, first)
            for again, first in zip(outputs, once, strict=True)
        )

    cost = projection_cost(
        tokens, weight.rows, weight.columns, bf16_outputs=narrow, fp32_outputs=weight.fp32_rows
    )
    return Trial(run=run, judge=judge, cost=cost)


def _fp32_product(activation: Tensor, weight: Tensor) -> Tensor:
    """What torch makes of BF16 operands with an FP32 result."""
    if activation.device.type == "cuda":
        return torch.mm(activation, weight.T, out_dtype=torch.float32)
    return projection(activation.float(), weight.float())


def _judge(shape: _Shape, used: _Buffers, bounds: SituBounds | None) -> tuple[Judgement, ...]:
    activation = used.activation[: shape.tokens, : shape.weight.columns]
    weight = used.weight[:, : shape.weight.columns]
    plain = shape.weight.plain_rows if bounds is not None else shape.weight.rows
    exact = projection(activation.double(), weight[:plain].double())
    rounded = _fp32_product(activation, weight[:plain]) if plain else exact.float()
    if bounds is not None:
        limits = (bounds.beta, bounds.linear_beta)
        pairs = weight[plain:]
        active = projection_situ(activation.double(), pairs.double(), *limits, torch.float64)
        exact = torch.cat([exact, active], dim=1)
        active32 = projection_situ(activation.float(), pairs.float(), *limits, torch.bfloat16)
        rounded = torch.cat([rounded, active32], dim=1)
    found = []
    for name, whole, first, dtype in (
        ("fp32_out", used.fp32_out, 0, torch.float32),
        ("out", used.out, shape.weight.fp32_rows, torch.bfloat16),
    ):
        if whole is None:
            continue
        width = whole.shape[1] - shape.padding
        found.append(
            judge_close(
                name,
                whole[: shape.tokens, :width],
                reference=exact[:, first : first + width],
                same_dtype=rounded[:, first : first + width].to(dtype),
            )
        )
        around = whole.clone()
        around[: shape.tokens, :width] = torch.nan
        untouched = poisoned(*around.shape, dtype=dtype, device=around.device)
        found.append(judge_bitwise(f"around {name}", around, untouched))
    return tuple(found)


def _signed_zeros(activation: Tensor, weight: Tensor) -> None:
    activation[0] = -0.0
    weight[::3] = -0.0


def _denormals(activation: Tensor, weight: Tensor) -> None:
    activation[0] = 2.0**-131
    activation[1] = 0.0
    activation[1, :8] = -(2.0**-132)
    weight[::2] = 2.0**-2


def _infinities(activation: Tensor, weight: Tensor) -> None:
    activation[0, 5] = torch.inf
    activation[0, 70] = -torch.inf
    weight[3, 9] = torch.inf
    weight[4, 5] = 0.0


def _nan_in_one_token_and_one_row(activation: Tensor, weight: Tensor) -> None:
    activation[1, 63] = torch.nan
    weight[-1, -1] = torch.nan


def _large_values(activation: Tensor, weight: Tensor) -> None:
    weight[::2] *= 2.0**20
    activation[0] = 2.0**60
    activation[1, ::2] = 2.0**100
    activation[1, 1::2] = -(2.0**100)


def _saturated_situ(activation: Tensor, weight: Tensor) -> None:
    activation[0] *= 100.0
    activation[1] *= 1e-3
    weight[:4] *= 100.0


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    plain = ProjectionShape(336, 1600)
    both = ProjectionShape(272, 1024, fp32_rows=112)
    situ = ProjectionShape(304, 1088, situ=True)
    front = ProjectionShape(2240, 192, fp32_rows=112, situ=True, plain_rows=1200)
    wide = ProjectionShape(3040, 128, fp32_rows=112, situ=True, plain_rows=1200)
    # Two tokens go through FP32 arithmetic only where rows are many.
    many = ProjectionShape(2240, 192, fp32_rows=112)
    corner = [
        ("one_row", _Shape(1, plain)),
        ("padded_rows", _Shape(5, plain, padding=24)),
        ("padded_rows_two_outputs", _Shape(2, many, padding=8)),
        ("fp32_only", _Shape(4, ProjectionShape(64, 256, fp32_rows=64))),
        ("eight_weight_rows", _Shape(11, ProjectionShape(8, 64))),
        ("rows_that_fill_no_block", _Shape(1, ProjectionShape(40, 192))),
        ("fewer_columns_than_warps", _Shape(64, ProjectionShape(136, 64, fp32_rows=72))),
        ("odd_units_of_columns", _Shape(20, ProjectionShape(304, 64 * 37))),
        ("signed_zeros", _Shape(3, both, alter=_signed_zeros)),
        ("denormals", _Shape(2, many, alter=_denormals)),
        ("denormals_tensor_core", _Shape(6, both, alter=_denormals)),
        ("infinities", _Shape(2, many, alter=_infinities)),
        ("infinities_tensor_core", _Shape(9, plain, alter=_infinities)),
        ("nan", _Shape(2, many, alter=_nan_in_one_token_and_one_row)),
        ("nan_tensor_core", _Shape(33, both, alter=_nan_in_one_token_and_one_row)),
        ("large_values", _Shape(2, many, alter=_large_values)),
        ("large_values_tensor_core", _Shape(3, plain, alter=_large_values)),
        ("situ_one_row", _Shape(1, situ)),
        ("situ_padded", _Shape(13, situ, padding=16)),
        ("situ_saturated", _Shape(3, situ, alter=_saturated_situ)),
        ("front_one_row", _Shape(1, front)),
        ("front_padded", _Shape(6, front, padding=8)),
        ("wide_ragged", _Shape(33, ProjectionShape(3016, 192, fp32_rows=112))),
        ("wide_many_units", _Shape(64, ProjectionShape(3008, 64 * 33))),
        ("wide_chains", _Shape(40, ProjectionShape(3008, 64 * 19, fp32_rows=112))),
        ("wide_front_padded", _Shape(33, wide, padding=8)),
        ("wide_infinities", _Shape(40, wide, alter=_infinities)),
    ]
    cases = [_case("m3", "smoke", _Shape(3, both)), _case("situ_m2", "smoke", _Shape(2, situ))]
    cases += [_case(name, "corner", shape) for name, shape in corner]
    cases += [
        _case(f"rows_m{tokens}", "rows", _Shape(tokens, both, padding=8))
        for tokens in range(1, MAX_ROWS + 1)
    ]
    for name, weight in k3_projections(_DIMS).items():
        cases += [
            _case(f"{name}_m{tokens}", "production", _Shape(tokens, weight))
            for tokens in sorted({*_TOKENS, *_AT_MORE_TOKENS.get(name, ())})
        ]
    return tuple(cases)


CASES = _cases()

"""Cases of the routed experts.

Weights are random bytes, so that every E2M1 code occurs, with scales that keep sums in range.
Corner cases and the sweep over the rows have few small experts and pass through the same code;
production cases draw K3's 896, with equal chances or some of them more often. Each preparation of a
production case draws other experts, so that timed copies read other weights.
Not here: an expert twice in one row, which no router makes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.launch import config_for, weight_layout
from k3decode.ops.experts.packing import pack_experts
from k3decode.ops.experts.trial import ExpertBytes, ExpertInputs, ExpertWeights, experts_trial

__all__ = ["CASES"]

_DIMS = K3Dims()
_SMALL = replace(
    _DIMS, num_experts=16, num_experts_per_token=4, latent_size=1024, expert_intermediate_size=384
)
_BATCHES = (1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 32, 33, 48, 64)
# Whole weights of more experts than these take longer to judge than all other cases.
_SERVED = {8: _BATCHES, 16: _BATCHES, 1: (1, 2, 8)}
# Wide enough that a warp comes back to an expert.
_WIDE = replace(_SMALL, num_experts=8, expert_intermediate_size=576)
# Scales around which random codes give gate and up values of a few units.
_SCALES = range(119, 124)


@dataclass(frozen=True)
class _AllBytes:
    """All experts as a checkpoint stores them, the expert first."""

    w13: Tensor
    w13_scales: Tensor
    w2: Tensor
    w2_scales: Tensor


@dataclass(frozen=True)
class _Shape:
    rows: int
    dims: K3Dims
    ranks: int
    row_padding: int = 0
    wide_scales: bool = False
    skew: float = 0.0
    """Expert e is drawn in proportion to (e + 1) ** -skew."""
    alter_weights: Callable[[_AllBytes], None] | None = None
    alter: Callable[[ExpertInputs], None] | None = None

    @property
    def config(self) -> ExpertsConfig:
        return config_for(self.dims, self.ranks, rows=self.rows, wide_scales=self.wide_scales)


def _weights(shape: _Shape, device: torch.device) -> ExpertWeights:
    c = shape.config
    generator = torch.Generator(device=device).manual_seed(c.inner_size)

    def draw(*extents: int, low: int = 0, high: int = 256) -> Tensor:
        return torch.randint(
            low, high, extents, generator=generator, dtype=torch.uint8, device=device
        )

    scales = partial(draw, low=_SCALES.start, high=_SCALES.stop)
    experts, latent, inner = c.num_experts, c.latent_size, c.inner_size
    stored = _AllBytes(
        w13=draw(experts, 2 * inner, latent // 2),
        w13_scales=scales(experts, 2 * inner, latent // MXFP4_GROUP),
        w2=draw(experts, latent, inner // 2),
        w2_scales=scales(experts, latent, inner // MXFP4_GROUP),
    )
    if shape.alter_weights is not None:
        shape.alter_weights(stored)
    tensors = (stored.w13, stored.w13_scales, stored.w2, stored.w2_scales)
    packed = pack_experts(*tensors, layout=weight_layout(device))

    def stored_expert(expert: int) -> ExpertBytes:
        return ExpertBytes(*(tensor[expert] for tensor in tensors))

    return ExpertWeights(packed, stored_expert)


@cache
def _kept_weights(dims: K3Dims, ranks: int, device: torch.device) -> ExpertWeights:
    """K3's own experts are gigabytes: drawn once for all cases of a process."""
    return _weights(_Shape(1, dims, ranks), device)


def _inputs(shape: _Shape, seed: int) -> ExpertInputs:
    c = shape.config
    generator = torch.Generator().manual_seed(seed)
    width = c.latent_size + shape.row_padding
    latent = poisoned(shape.rows, width, dtype=torch.bfloat16, device=torch.device("cpu"))
    used = torch.randn(shape.rows, c.latent_size, generator=generator)
    latent[:, : c.latent_size] = used.to(torch.bfloat16)
    # Sums of the logarithms of popularity and of Gumbel noise: the largest are a draw without
    # replacement.
    uniform = torch.rand(shape.rows, c.num_experts, generator=generator).clamp_min(1e-9)
    popularity = torch.arange(1, c.num_experts + 1).log().mul(-shape.skew)
    scores = popularity - (-uniform.log()).log()
    shares = torch.rand(shape.rows, c.top_k, generator=generator)
    inputs = ExpertInputs(
        latent=latent,
        experts=scores.topk(c.top_k).indices.to(torch.int32),
        shares=shares / shares.sum(-1, keepdim=True),
    )
    if shape.alter is not None:
        shape.alter(inputs)
    return inputs


def _prepare(shape: _Shape, draws: Iterator[int], launch: Launch, device: torch.device) -> Trial:
    if shape.alter_weights is None:
        weights = _kept_weights(shape.dims, shape.ranks, device)
    else:
        weights = _weights(shape, device)
    before = _inputs(shape, seed=100 * shape.rows + next(draws))
    return experts_trial(shape.config, before, weights, launch, device)


def _skipped_slots(inputs: ExpertInputs) -> None:
    inputs.experts[0] = -1
    inputs.experts[1, ::2] = -1
    inputs.experts[2, 1] = _SMALL.num_experts
    # Nobody may read a row without experts, nor the weight of a slot without one.
    inputs.latent[0] = torch.nan
    inputs.shares[0] = torch.nan
    inputs.shares[1, ::2] = torch.nan


def _all_skipped(inputs: ExpertInputs) -> None:
    inputs.experts[:] = -1


def _same_experts(inputs: ExpertInputs) -> None:
    inputs.experts[:] = torch.tensor([15, 0, 9, 5], dtype=torch.int32)


def _different_experts(inputs: ExpertInputs) -> None:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(_SMALL.num_experts, generator=generator)
    inputs.experts[:] = order.to(torch.int32).view(inputs.experts.shape)


def _one_hot_expert(inputs: ExpertInputs) -> None:
    # Choice j is among experts 4 j to 4 j + 3, so that no row has one twice.
    inputs.experts[:] = inputs.experts % 4 + 4 * torch.arange(4, dtype=torch.int32)
    inputs.experts[:, 2] = 9


def _signed_zeros(inputs: ExpertInputs) -> None:
    inputs.latent[0] = -0.0
    inputs.latent[1, ::2] = -0.0
    inputs.shares[1] = -0.0


def _denormal_rows(inputs: ExpertInputs) -> None:
    inputs.latent[0] = 2.0**-130
    inputs.latent[1] = -(2.0**-133)


def _unbounded_rows(inputs: ExpertInputs) -> None:
    inputs.latent[0, 3] = torch.nan
    inputs.latent[1, 5] = torch.inf
    inputs.latent[2, 6] = -torch.inf
    inputs.latent[2, 7] = torch.inf


def _one_large_row(inputs: ExpertInputs) -> None:
    inputs.latent[1] = inputs.latent[1] * 2.0**40


def _half_skipped(inputs: ExpertInputs) -> None:
    inputs.experts[0] = -1
    inputs.experts[1, ::2] = _SMALL.num_experts
    inputs.latent[0] = torch.nan
    inputs.shares[0] = torch.nan
    inputs.shares[1, ::2] = torch.nan


def _two_unbounded_rows(inputs: ExpertInputs) -> None:
    inputs.latent[0, 5] = torch.inf
    inputs.latent[1, 3] = torch.nan


def _large_rows(inputs: ExpertInputs) -> None:
    # Brings weights whose scale bytes are next to zero back into range.
    inputs.latent[:] = inputs.latent * 2.0**118


def _least_scales(stored: _AllBytes) -> None:
    # Weights down to the least BF16 denormals, in every second expert.
    stored.w13_scales[::2] = stored.w13_scales[::2] - _SCALES.start


def _signed_zero_weights(stored: _AllBytes) -> None:
    stored.w13[::2] = 0x88
    stored.w2[1::2, ::3] = 0x80


def _saturated_scales(stored: _AllBytes) -> None:
    # Gate and up rows of one group with the largest finite value in one column, zeros elsewhere.
    stored.w13[0::4, ::5, 16:32] = 0
    stored.w13[0::4, ::5, 20] = 0x30
    stored.w13_scales[0::4, ::5, 1] = 254
    # A row with one infinite weight.
    stored.w13[1, 3, :16] = 0
    stored.w13[1, 3, 0] = 0x07
    stored.w13_scales[1, 3, 0] = 254
    # NaN in an inner row, NaN in an output column, nothing but the least scale.
    stored.w13_scales[2, 9, 2] = 255
    stored.w2_scales[3, 7, 1] = 255
    stored.w13_scales[5::4] = 0
    stored.w2_scales[:, 12] = 0
    # Large weights of few experts: errors are judged against the largest of a row.
    stored.w2_scales[7, 11] = 140
    stored.w2_scales[9, 13, 0] = 128


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape, count()))


def _cases() -> tuple[Case, ...]:
    small = partial(_Shape, dims=_SMALL, ranks=2)
    corner = [
        ("one_row", small(1)),
        ("full_width", _Shape(5, _SMALL, ranks=1)),
        ("whole_weights", _Shape(9, _WIDE, ranks=1)),
        ("whole_weights_crowded", _Shape(18, _WIDE, ranks=1)),
        ("padded_rows", small(7, row_padding=24)),
        ("skipped_slots", small(6, alter=_skipped_slots)),
        ("all_skipped", small(3, alter=_all_skipped)),
        ("same_experts", small(64, alter=_same_experts)),
        ("different_experts", small(4, alter=_different_experts)),
        ("one_hot_expert", small(33, alter=_one_hot_expert)),
        ("signed_zeros", small(4, alter=_signed_zeros, alter_weights=_signed_zero_weights)),
        ("denormal_rows", small(3, alter=_denormal_rows)),
        ("unbounded_rows", small(5, alter=_unbounded_rows)),
        ("least_scales", small(9, alter=_large_rows, alter_weights=_least_scales)),
        (
            "least_scales_wide",
            small(9, alter=_large_rows, alter_weights=_least_scales, wide_scales=True),
        ),
        ("two_rows_skipped", small(2, alter=_half_skipped)),
        ("three_rows_unbounded", small(3, row_padding=8, alter=_two_unbounded_rows)),
        ("four_rows_same_experts", small(4, alter=_same_experts)),
        ("four_rows_one_large", small(4, alter=_one_large_row)),
        (
            "four_rows_least_scales",
            small(4, alter=_large_rows, alter_weights=_least_scales),
        ),
        ("saturated_scales", small(12, alter_weights=_saturated_scales, wide_scales=True)),
        ("wide_scales_unused", small(3, wide_scales=True)),
    ]
    cases = [_case(f"m{rows}", "smoke", small(rows)) for rows in (3, 5)]
    cases += [_case(name, "corner", shape) for name, shape in corner]
    cases += [
        _case(f"tp{ranks}_m{rows}", "production", _Shape(rows, _DIMS, ranks))
        for ranks, batches in _SERVED.items()
        for rows in batches
    ]
    cases += [
        _case(f"tp8_m{rows}_skewed", "production", _Shape(rows, _DIMS, ranks=8, skew=1.0))
        for rows in (16, 64)
    ]
    cases += [_case(f"rows_m{rows}", "rows", small(rows)) for rows in range(1, MAX_ROWS + 1)]
    return tuple(cases)


CASES = _cases()

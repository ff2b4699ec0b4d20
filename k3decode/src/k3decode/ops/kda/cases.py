"""Cases of one KDA decode step.

State pages are wider than dense and taken in random order; pages of no row, page 0, the bytes
between pages and the projections of padding rows hold NaN, so that a read of any of them shows.
Stored taps are judged bit by bit, outputs and the recurrent state by the rounding of the decay gate
that the specification names. Not here: two rows with one page, which no scheduler makes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.op import Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.kda.config import KdaConfig
from k3decode.ops.kda.cost import kda_step_cost
from k3decode.ops.kda.launch import KdaStepWeights, config_for
from k3decode.ops.kda.reference import KdaProjection, KdaState, KdaWeights, kda_recurrent
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES"]

_DIMS = K3Dims()
# Pages that belong to no row, page 0 included.
_SPARE_PAGES = 3


@dataclass(frozen=True)
class _Inputs:
    """Everything on one device; whole allocations behind the views."""

    projection: Tensor
    weights: KdaStepWeights
    slots: Tensor
    conv_pages: Tensor
    memory_pages: Tensor
    out: Tensor

    def copied_to(self, device: torch.device) -> "_Inputs":
        def copy(tensor: Tensor) -> Tensor:
            return tensor.to(device, copy=True)

        weights = self.weights
        return _Inputs(
            projection=copy(self.projection),
            weights=KdaStepWeights(
                f_b=copy(weights.f_b),
                conv=copy(weights.conv),
                a_log=copy(weights.a_log),
                dt_bias=copy(weights.dt_bias),
                o_norm=copy(weights.o_norm),
            ),
            slots=copy(self.slots),
            conv_pages=copy(self.conv_pages),
            memory_pages=copy(self.memory_pages),
            out=copy(self.out),
        )


@dataclass(frozen=True)
class _Shape:
    rows: int
    heads: int
    row_padding: int = 0
    page_padding: int = 0
    """Extra elements behind each page of both states, a multiple of 8."""
    null_rows: tuple[int, ...] = ()
    """Rows of slot 0 or, every other one, slot -1."""
    alter: Callable[[_Inputs, KdaConfig], None] | None = None

    @property
    def config(self) -> KdaConfig:
        return config_for(_DIMS, self.heads)

    @property
    def live_rows(self) -> list[int]:
        return [row for row in range(self.rows) if row not in self.null_rows]


def _conv_view(pages: Tensor, config: KdaConfig) -> Tensor:
    taps, width = config.conv_taps - 1, 3 * config.channels
    return pages[:, : taps * width].unflatten(1, (taps, width))


def _memory_view(pages: Tensor, config: KdaConfig) -> Tensor:
    shape = (config.heads, config.head_dim, config.head_dim)
    return pages[:, : config.channels * config.head_dim].unflatten(1, shape)


def _weights(config: KdaConfig, generator: torch.Generator) -> KdaStepWeights:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return KdaStepWeights(
        f_b=(normal(config.channels, config.gate_rank) / config.gate_rank**0.5).to(torch.bfloat16),
        conv=normal(3 * config.channels, config.conv_taps) / 2,
        a_log=normal(config.heads) / 2,
        dt_bias=normal(config.channels),
        o_norm=1 + normal(config.head_dim) / 4,
    )


def _inputs(shape: _Shape) -> _Inputs:
    config = shape.config
    cpu = torch.device("cpu")
    generator = torch.Generator().manual_seed(100 * shape.rows + shape.heads)
    pages = shape.rows + _SPARE_PAGES
    taps = (config.conv_taps - 1) * 3 * config.channels
    conv = poisoned(pages, taps + shape.page_padding, dtype=torch.bfloat16, device=cpu)
    state = config.channels * config.head_dim
    memory = poisoned(pages, state + shape.page_padding, dtype=torch.float32, device=cpu)
    width = -(-config.projection_width // 16) * 16 + shape.row_padding
    projection = poisoned(shape.rows, width, dtype=torch.bfloat16, device=cpu)
    slots = (1 + torch.randperm(pages - 1, generator=generator)[: shape.rows]).to(torch.int32)
    for count, row in enumerate(shape.null_rows):
        slots[row] = -(count % 2)
    for row in shape.live_rows:
        page = int(slots[row])
        conv[page, :taps] = torch.randn(taps, generator=generator).to(torch.bfloat16)
        memory[page, :state] = torch.randn(state, generator=generator) / 4
        used = config.projection_width
        projection[row, :used] = torch.randn(used, generator=generator).to(torch.bfloat16)
    inputs = _Inputs(
        projection=projection,
        weights=_weights(config, generator),
        slots=slots,
        conv_pages=conv,
        memory_pages=memory,
        out=poisoned(
            shape.rows + 1,
            config.channels + shape.row_padding,
            dtype=torch.bfloat16,
            device=cpu,
        ),
    )
    if shape.alter is not None:
        shape.alter(inputs, config)
    return inputs


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    config = shape.config
    before = _inputs(shape)
    used = before.copied_to(device)

    def run() -> None:
        launch(
            used.projection,
            used.weights,
            used.slots,
            _conv_view(used.conv_pages, config),
            _memory_view(used.memory_pages, config),
            used.out[: shape.rows, : config.channels],
            config=config,
        )

    return Trial(
        run=run,
        judge=lambda: _judge(shape, before, used),
        cost=kda_step_cost(config, shape.rows, live_rows=len(shape.live_rows)),
    )


def _expected(inputs: _Inputs, shape: _Shape, dtype: torch.dtype) -> tuple[Tensor, KdaState]:
    """Reference over the live rows; FP32 with the specified rounding, FP64 without."""
    config = shape.config
    rows = inputs.projection[shape.live_rows].to(dtype)[:, None, : config.projection_width]
    channels = config.channels
    qkv, gate, factor, beta = rows.split(
        [3 * channels, channels, config.gate_rank, config.heads], -1
    )
    raw_decay = factor @ inputs.weights.f_b.to(dtype).T
    if dtype == torch.float32:
        raw_decay = raw_decay.to(torch.bfloat16).to(dtype)
    weights = KdaWeights(
        in_proj=torch.empty(0),
        f_b_proj=inputs.weights.f_b,
        o_proj=torch.empty(0),
        conv_weight=inputs.weights.conv.to(dtype),
        a_log=inputs.weights.a_log.to(dtype),
        dt_bias=inputs.weights.dt_bias.to(dtype),
        o_norm=inputs.weights.o_norm.to(dtype),
        gate_lower_bound=config.gate_lower_bound,
        qk_norm_eps=config.qk_norm_eps,
        norm_eps=config.norm_eps,
    )
    pages = inputs.slots[shape.live_rows].long()
    state = KdaState(
        taps=_conv_view(inputs.conv_pages, config)[pages].to(dtype),
        memory=_memory_view(inputs.memory_pages, config)[pages].to(dtype),
    )
    projection = KdaProjection(qkv=qkv, gate=gate, raw_decay=raw_decay, raw_beta=beta)
    out, after = kda_recurrent(projection, weights, state)
    return out[:, 0], after


def _judge(shape: _Shape, before: _Inputs, used: _Inputs) -> tuple[Judgement, ...]:
    config, live = shape.config, shape.live_rows
    exact, exact_state = _expected(before, shape, torch.float64)
    rounded, rounded_state = _expected(before, shape, torch.float32)
    pages = before.slots[live].long()
    conv = before.conv_pages.clone()
    _conv_view(conv, config)[pages] = exact_state.taps.to(torch.bfloat16)
    memory = used.memory_pages.cpu()
    around_memory = memory.clone()
    _memory_view(around_memory, config)[pages] = _memory_view(before.memory_pages, config)[pages]
    out = used.out.cpu()
    around_out = out.clone()
    around_out[live, : config.channels] = before.out[live, : config.channels]
    expected_around = before.out.clone()
    expected_around[list(shape.null_rows), : config.channels] = 0.0
    return (
        judge_close(
            "out",
            out[live, : config.channels],
            reference=exact,
            same_dtype=rounded.to(torch.bfloat16),
        ),
        judge_close(
            "memory",
            _memory_view(memory, config)[pages],
            reference=exact_state.memory,
            same_dtype=rounded_state.memory,
            shared_axes=2,
        ),
        judge_bitwise("taps", used.conv_pages, conv),
        judge_bitwise("other pages", around_memory, before.memory_pages),
        judge_bitwise("other outputs", around_out, expected_around),
    )


def _gate_at_bound(inputs: _Inputs, config: KdaConfig) -> None:
    # Half the channels decay by exp(bound), half not at all.
    half = config.channels // 2
    inputs.weights.dt_bias[:half] = 1e4
    inputs.weights.dt_bias[half:] = -1e4


def _signed_zeros(inputs: _Inputs, config: KdaConfig) -> None:
    page = int(inputs.slots[0])
    inputs.projection[0, : config.projection_width] = -0.0
    _conv_view(inputs.conv_pages, config)[page] = -0.0
    _memory_view(inputs.memory_pages, config)[page] = -0.0


def _denormals(inputs: _Inputs, config: KdaConfig) -> None:
    page = int(inputs.slots[0])
    _conv_view(inputs.conv_pages, config)[page] = 2.0**-132
    inputs.projection[0, : 3 * config.channels] = -(2.0**-131)
    _memory_view(inputs.memory_pages, config)[page] = 2.0**-60


def _large_beta_and_gate(inputs: _Inputs, config: KdaConfig) -> None:
    start = 4 * config.channels + config.gate_rank
    inputs.projection[0, start : start + config.heads] = 200.0
    inputs.projection[1, start : start + config.heads] = -200.0
    inputs.projection[0, 3 * config.channels : 4 * config.channels] = -200.0


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    tp8, tp16 = (_DIMS.num_attention_heads // ranks for ranks in (8, 16))
    wide = 1024
    corner = [
        ("one_row", _Shape(1, tp8)),
        ("padded_rows", _Shape(3, tp16, row_padding=40)),
        ("wide_pages", _Shape(3, tp8, page_padding=wide)),
        ("null_slots", _Shape(6, tp16, page_padding=wide, null_rows=(0, 2, 5))),
        ("null_slots_only", _Shape(2, tp8, null_rows=(0, 1))),
        ("gate_at_bound", _Shape(2, tp16, alter=_gate_at_bound)),
        ("signed_zeros", _Shape(2, tp16, alter=_signed_zeros)),
        ("denormals", _Shape(2, tp16, alter=_denormals)),
        ("large_beta_and_gate", _Shape(2, tp16, alter=_large_beta_and_gate)),
    ]
    cases = [_case("tp16_m3", "smoke", _Shape(3, tp16))]
    cases += [_case(name, "corner", shape) for name, shape in corner]
    cases += [
        _case(f"tp{ranks}_m{rows}", "production", _Shape(rows, heads, page_padding=wide))
        for ranks, heads in ((8, tp8), (16, tp16))
        for rows in (1, 2, 7, 8, 16, 33, 64)
    ]
    return tuple(cases)


CASES = _cases()

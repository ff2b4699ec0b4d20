"""Cases of one KDA decode or verify step.

State pages are wider than dense and taken in random order; pages of no request, page 0, the bytes
between pages, states and taps that no accepted token needs, and the projections of padding hold
NaN, so that a read of any of them shows. Not here: two requests with one page, which no scheduler
makes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.kda.config import MAX_TOKENS, KdaConfig
from k3decode.ops.kda.launch import KdaStepWeights, config_for
from k3decode.ops.kda.trial import KdaInputs, kda_trial

__all__ = ["CASES"]

_DIMS = K3Dims()
# Pages that belong to no request, page 0 included.
_SPARE_PAGES = 3


@dataclass(frozen=True)
class _Shape:
    requests: int
    heads: int
    tokens: int = 1
    row_padding: int = 0
    page_padding: int = 0
    """Extra elements behind each page of both states, a multiple of 8."""
    null_requests: tuple[int, ...] = ()
    """Requests of slots 0 or, every other one, slots -1."""
    accepted: int | None = None
    """For all requests; by default all numbers in turn, beginning with the largest."""
    alter: Callable[[KdaInputs], None] | None = None

    @property
    def config(self) -> KdaConfig:
        return config_for(_DIMS, self.heads, self.tokens, self.requests)


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


def _slots(shape: _Shape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pages in random order, and how many tokens the step before kept."""
    tokens = shape.tokens
    count = shape.requests * tokens
    pages = 1 + torch.randperm(count + _SPARE_PAGES - 1, generator=generator)[:count]
    slots = pages.to(torch.int32).view(shape.requests, tokens)
    accepted = tokens - torch.arange(shape.requests, dtype=torch.int32) % tokens
    if shape.accepted is not None:
        accepted[:] = shape.accepted
    for place, request in enumerate(shape.null_requests):
        slots[request] = -(place % 2)
        accepted[request] = 1
    return slots, accepted


def _inputs(shape: _Shape) -> KdaInputs:
    config = shape.config
    cpu = torch.device("cpu")
    generator = torch.Generator().manual_seed(
        10_000 * shape.tokens + 100 * shape.requests + shape.heads
    )
    slots, accepted = _slots(shape, generator)
    rows = shape.requests * shape.tokens
    pages = rows + _SPARE_PAGES
    padding, bf16 = shape.page_padding, torch.bfloat16
    taps = config.window * 3 * config.channels
    state = config.channels * config.head_dim
    width = -(-config.projection_width // 16) * 16 + shape.row_padding
    inputs = KdaInputs(
        config=config,
        projection=poisoned(rows, width, dtype=bf16, device=cpu),
        weights=_weights(config, generator),
        slots=slots,
        accepted=accepted,
        conv_pages=poisoned(pages, taps + padding, dtype=bf16, device=cpu),
        memory_pages=poisoned(pages, state + padding, dtype=torch.float32, device=cpu),
        out=poisoned(rows + 1, config.channels + shape.row_padding, dtype=bf16, device=cpu),
    )
    _fill(inputs, generator)
    if shape.alter is not None:
        shape.alter(inputs)
    return inputs


def _fill(inputs: KdaInputs, generator: torch.Generator) -> None:
    """Only what the live requests may read."""
    c = inputs.config
    for request in inputs.live:
        first = int(inputs.accepted[request]) - 1
        taps = inputs.conv_state[int(inputs.slots[request, 0]), first : first + c.conv_taps - 1]
        taps[:] = torch.randn(taps.shape, generator=generator).to(taps.dtype)
        memory = inputs.memory[int(inputs.start_pages[request])]
        memory[:] = torch.randn(memory.shape, generator=generator) / 4
        new = inputs.projection[request * c.tokens : (request + 1) * c.tokens, : c.projection_width]
        new[:] = torch.randn(new.shape, generator=generator).to(new.dtype)


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    return kda_trial(_inputs(shape), launch, device)


def _gate_at_bound(inputs: KdaInputs) -> None:
    # Half the channels decay by exp(bound), half not at all.
    half = inputs.config.channels // 2
    inputs.weights.dt_bias[:half] = 1e4
    inputs.weights.dt_bias[half:] = -1e4


def _signed_zeros(inputs: KdaInputs) -> None:
    page = int(inputs.slots[0, 0])
    inputs.projection[0, : inputs.config.projection_width] = -0.0
    inputs.conv_state[page] = -0.0
    inputs.memory[page] = -0.0


def _denormals(inputs: KdaInputs) -> None:
    page = int(inputs.slots[0, 0])
    inputs.conv_state[page] = 2.0**-132
    inputs.projection[0, : 3 * inputs.config.channels] = -(2.0**-131)
    inputs.memory[page] = 2.0**-60


def _large_beta_and_gate(inputs: KdaInputs) -> None:
    start = 4 * inputs.config.channels + inputs.config.gate_rank
    inputs.projection[0, start : start + inputs.config.heads] = 200.0
    inputs.projection[1, start : start + inputs.config.heads] = -200.0
    inputs.projection[0, 3 * inputs.config.channels : 4 * inputs.config.channels] = -200.0


def _infinities(inputs: KdaInputs) -> None:
    # A query without end makes its head's output NaN; gates without end are at their ends.
    c, row = inputs.config, inputs.projection[0]
    row[5] = torch.inf
    row[3 * c.channels + c.head_dim :][:2] = torch.tensor([torch.inf, -torch.inf])
    inputs.projection[1, 4 * c.channels] = torch.inf
    inputs.projection[1, 4 * c.channels + c.gate_rank] = -torch.inf


def _drop_states(inputs: KdaInputs) -> None:
    # Never the first page, which both requests start from.
    inputs.slots[0, 2] = 0
    inputs.slots[1, 1] = -1
    inputs.slots[1, 3] = 0


def _start_without_page(inputs: KdaInputs) -> None:
    inputs.slots[1, int(inputs.accepted[1]) - 1] = -1
    inputs.projection[inputs.config.tokens : 2 * inputs.config.tokens] = float("nan")


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _corner_cases(tp8: int, tp16: int, wide: int) -> list[Case]:
    corner = [
        ("one_row", _Shape(1, tp8)),
        ("padded_rows", _Shape(3, tp16, row_padding=40)),
        ("wide_pages", _Shape(3, tp8, page_padding=wide)),
        ("null_slots", _Shape(6, tp16, page_padding=wide, null_requests=(0, 2, 5))),
        ("null_slots_only", _Shape(2, tp8, null_requests=(0, 1))),
        ("gate_at_bound", _Shape(2, tp16, alter=_gate_at_bound)),
        ("signed_zeros", _Shape(2, tp16, alter=_signed_zeros)),
        ("denormals", _Shape(2, tp16, alter=_denormals)),
        ("large_beta_and_gate", _Shape(2, tp16, alter=_large_beta_and_gate)),
        ("infinities", _Shape(2, tp16, alter=_infinities)),
        ("q2_one_request", _Shape(1, tp8, 2)),
        ("q3_padded_rows", _Shape(2, tp16, 3, row_padding=40)),
        ("q4_one_accepted", _Shape(2, tp16, 4, accepted=1)),
        ("q4_all_accepted", _Shape(2, tp16, 4, accepted=4)),
        ("q4_null_requests", _Shape(4, tp16, 4, page_padding=wide, null_requests=(0, 2))),
        ("q4_dropped_states", _Shape(2, tp16, 4, accepted=1, alter=_drop_states)),
        ("q3_start_without_page", _Shape(3, tp16, 3, alter=_start_without_page)),
        ("q2_gate_at_bound", _Shape(1, tp16, 2, alter=_gate_at_bound)),
    ]
    return [_case(name, "corner", shape) for name, shape in corner]


def _production_cases(tp8: int, tp16: int, wide: int) -> list[Case]:
    cases = [
        _case(f"tp{ranks}_m{rows}", "production", _Shape(rows, heads, page_padding=wide))
        for ranks, heads in ((8, tp8), (16, tp16))
        for rows in SERVED_ROWS
    ]
    whole = _DIMS.num_attention_heads
    cases += [
        _case(f"tp1_m{rows}", "production", _Shape(rows, whole, page_padding=wide))
        for rows in (1, 4)
    ]
    cases += [
        _case(
            f"tp{ranks}_q{tokens}_m{requests * tokens}",
            "production",
            _Shape(requests, heads, tokens, page_padding=wide),
        )
        for ranks, heads in ((8, tp8), (16, tp16))
        for tokens in range(2, MAX_TOKENS + 1)
        for requests in (1, MAX_ROWS // tokens)
    ]
    return cases


def _cases() -> tuple[Case, ...]:
    tp8, tp16 = (_DIMS.shard(ranks).num_attention_heads for ranks in (8, 16))
    wide = 1024
    cases = [
        _case("smoke_m3", "smoke", _Shape(3, tp16)),
        _case("tp16_q3_m6", "smoke", _Shape(2, tp16, 3)),
    ]
    cases += _corner_cases(tp8, tp16, wide) + _production_cases(tp8, tp16, wide)
    cases += [
        _case(f"rows_q{tokens}_m{requests * tokens}", "rows", _Shape(requests, tp16, tokens))
        for tokens in range(1, MAX_TOKENS + 1)
        for requests in range(1, MAX_ROWS // tokens + 1)
    ]
    return tuple(cases)


CASES = _cases()

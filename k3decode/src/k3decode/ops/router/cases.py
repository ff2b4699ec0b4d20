"""Cases of expert selection.

Ties are exact: equal logits with equal bias, scores that saturate at one, and all scores at zero.
Elsewhere two scores closer than the rounding of the sigmoid may change places; an id is judged
exactly wherever its rank is decided. Columns between padded rows hold NaN. Not here: NaN logits,
which no caller may pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.router.config import RouterConfig
from k3decode.ops.router.cost import router_cost
from k3decode.ops.router.launch import variants
from k3decode.ops.router.reference import route
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES", "judge_ranks", "replay", "router_trial"]

_DIMS = K3Dims()
(_CONFIG,) = variants(_DIMS).values()
# Scores are below one, the sum with a bias below two in the cases that leave ranks undecided.
_UNDECIDED = 4 * 2.0**-23


@dataclass(frozen=True)
class _Shape:
    rows: int
    row_padding: int = 0
    alter: Callable[[Tensor, Tensor], None] | None = None
    """Overwrites parts of logits and bias."""


def judge_ranks(experts: Tensor, logits: Tensor, bias: Tensor) -> Judgement:
    """Judge chosen ids [M, k] against the FP32 reference ranking of logits [M, E]."""
    found = experts.cpu().long()
    top_k = found.shape[1]
    biased = torch.sigmoid(logits) + bias
    ranking = torch.sort(biased, dim=-1, descending=True, stable=True)
    values = ranking.values[:, : top_k + 1]
    wanted = ranking.indices[:, :top_k]
    gaps = values[:, :-1] - values[:, 1:]
    # Equal inputs give equal scores on any device, so their order is decided by the ids.
    following = ranking.indices[:, : top_k + 1]
    key = torch.stack([logits.gather(1, following), bias[following]])
    equal = (key[:, :, :-1] == key[:, :, 1:]).all(0) | (gaps == 0) & (values[:, :-1] % 1 == 0)
    clear = (gaps > _UNDECIDED) | equal
    above = torch.cat([torch.ones_like(clear[:, :1]), clear[:, :-1]], dim=1)
    decided = clear & above
    valid = ((found >= 0) & (found < logits.shape[1])).all()
    if not bool(valid):
        return _failed_ranks("an id that is no expert", found, wanted)
    if bool((found.sort(-1).values.diff(dim=-1) == 0).any()):
        return _failed_ranks("an expert chosen twice", found, wanted)
    if bool((decided & (found != wanted)).any()):
        return _failed_ranks("another expert at a decided rank", found, wanted)
    drift = (biased.gather(1, found) - values[:, :top_k]).abs()
    if bool((drift > _UNDECIDED).any()):
        return _failed_ranks("an expert with a smaller score", found, wanted)
    return Judgement(output="experts", passed=True, worst=0.0, sentence="")


def _failed_ranks(problem: str, found: Tensor, wanted: Tensor) -> Judgement:
    row = int((found != wanted).any(-1).nonzero()[0]) if bool((found != wanted).any()) else 0
    return Judgement(
        output="experts",
        passed=False,
        worst=float("inf"),
        sentence=f"{problem} in row {row}: expected {wanted[row].tolist()}, found "
        f"{found[row].tolist()}",
    )


def _weights(logits: Tensor, experts: Tensor, scaling_factor: float) -> Tensor:
    """Combine weights of given experts, in the dtype of the logits."""
    width = logits.shape[1]
    chosen = torch.full_like(logits, -torch.inf).scatter(1, experts, 0.0)
    # A bias of minus infinity keeps all others out; the reference then renormalises these.
    rows = []
    for row in range(logits.shape[0]):
        routing = route(logits[row : row + 1], chosen[row], experts.shape[1], scaling_factor)
        by_id = torch.zeros(width, dtype=logits.dtype)
        by_id[routing.experts[0]] = routing.weights[0]
        rows.append(by_id[experts[row]])
    return torch.stack(rows)


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    rows, experts_in_all = shape.rows, _CONFIG.num_experts
    generator = torch.Generator().manual_seed(rows)
    width = experts_in_all + shape.row_padding
    allocated = poisoned(rows, width, dtype=torch.float32, device=torch.device("cpu"))
    logits = allocated[:, :experts_in_all]
    logits[:] = 2 * torch.randn(rows, experts_in_all, generator=generator)
    bias = 0.2 * torch.randn(experts_in_all, generator=generator)
    if shape.alter is not None:
        shape.alter(logits, bias)
    return router_trial(_CONFIG, allocated, bias, launch, device)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    bias = call.tensor("bias")
    config = RouterConfig(
        num_experts=bias.shape[0],
        experts_per_token=call.tensor("experts").shape[1],
        scaling_factor=call.number("scaling_factor"),
    )
    return router_trial(config, call.tensor("logits"), bias, launch, device)


def router_trial(
    config: RouterConfig, allocated: Tensor, bias: Tensor, launch: Launch, device: torch.device
) -> Trial:
    """Trial on logits whose first columns are used, which lie on the CPU."""
    rows, top_k, scaling = allocated.shape[0], config.experts_per_token, config.scaling_factor
    logits = allocated[:, : config.num_experts]
    logits_on_device = allocated.to(device)[:, : config.num_experts]
    bias_on_device = bias.to(device)
    all_experts = poisoned(rows + 1, top_k, dtype=torch.int32, device=device)
    all_weights = poisoned(rows + 1, top_k, dtype=torch.float32, device=device)
    behind = (all_experts[rows:].clone(), all_weights[rows:].clone())
    experts, weights = all_experts[:rows], all_weights[:rows]

    def run() -> None:
        launch(logits_on_device, bias_on_device, experts, weights, scaling_factor=scaling)

    def judge() -> tuple[Judgement, ...]:
        ranks = judge_ranks(experts, logits, bias)
        untouched = (
            judge_bitwise("experts behind the last row", all_experts[rows:], behind[0]),
            judge_bitwise("weights behind the last row", all_weights[rows:], behind[1]),
        )
        if not ranks.passed:
            return (ranks, *untouched)
        chosen = experts.cpu().long()
        return (
            ranks,
            judge_close(
                "weights",
                weights,
                reference=_weights(logits.double(), chosen, scaling),
                same_dtype=_weights(logits, chosen, scaling),
            ),
            *untouched,
        )

    return Trial(run=run, judge=judge, cost=router_cost(config, rows))


def _all_equal(logits: Tensor, bias: Tensor) -> None:
    logits[:] = 0.25
    bias[:] = 0.0


def _few_values(logits: Tensor, bias: Tensor) -> None:
    logits[:] = logits.round()
    bias[:] = 0.0


def _ties_across_lanes(logits: Tensor, bias: Tensor) -> None:
    bias[:] = 0.0
    # The best score at ids whose lanes come in the opposite order.
    for expert in (31, 32, 95, 64, 895, 1):
        logits[:, expert] = 9.0


def _saturated(logits: Tensor, bias: Tensor) -> None:
    bias[:] = 0.0
    logits[:, 5::40] = 40.0 + torch.arange(logits[0, 5::40].shape[0])


def _infinities(logits: Tensor, bias: Tensor) -> None:
    bias[:] = 0.0
    logits[0] = -torch.inf
    logits[1, ::2] = -torch.inf
    logits[1, 100:110] = torch.inf


def _zeros_and_denormals(logits: Tensor, bias: Tensor) -> None:
    logits[0] = -0.0
    logits[0, ::3] = 0.0
    logits[1] = 2.0**-140
    bias[:] = -0.0


def _bias_decides(logits: Tensor, bias: Tensor) -> None:
    # Small scores win through their bias and must keep their small weights.
    logits[:, 800:816] = -8.0 - torch.arange(16) / 8
    bias[800:816] = 4.0


def _tiny_scores(logits: Tensor, bias: Tensor) -> None:
    logits[:] = -60.0 - torch.rand(logits.shape, generator=torch.Generator().manual_seed(1))
    bias[:] = torch.linspace(-1.0, 1.0, bias.shape[0])


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


CASES = (
    _case("smoke_m3", "smoke", _Shape(3)),
    _case("one_row", "corner", _Shape(1)),
    _case("padded_rows", "corner", _Shape(5, row_padding=3)),
    _case("all_equal", "corner", _Shape(3, alter=_all_equal)),
    _case("few_values", "corner", _Shape(7, alter=_few_values)),
    _case("ties_across_lanes", "corner", _Shape(2, alter=_ties_across_lanes)),
    _case("saturated", "corner", _Shape(3, alter=_saturated)),
    _case("infinities", "corner", _Shape(3, alter=_infinities)),
    _case("zeros_and_denormals", "corner", _Shape(3, alter=_zeros_and_denormals)),
    _case("bias_decides", "corner", _Shape(3, alter=_bias_decides)),
    _case("tiny_scores", "corner", _Shape(3, alter=_tiny_scores)),
    *(_case(f"m{rows}", "production", _Shape(rows)) for rows in SERVED_ROWS),
    *(_case(f"rows_m{rows}", "rows", _Shape(rows)) for rows in range(1, MAX_ROWS + 1)),
)

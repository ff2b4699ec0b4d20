"""One launch of the routed experts with everything it touches, and what it should have written.

The reference sees weights through `formats`, not through the kernels' order. Between padded rows
stands NaN, and so it does in workspace that no slot uses.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from k3decode.cost import Cost
from k3decode.formats import unpack_mxfp4
from k3decode.op import Launch, Trial, poisoned
from k3decode.ops.dense_mlp.reference import MlpWeights
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.cost import experts_cost
from k3decode.ops.experts.launch import make_workspace, weight_layout
from k3decode.ops.experts.packing import PackedExperts, unpack_down, unpack_gate_up
from k3decode.ops.latent_moe.reference import MoeWeights, routed_experts
from k3decode.ops.router.reference import Routing
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["ExpertBytes", "ExpertInputs", "ExpertWeights", "experts_trial", "replay"]

# Of a counter, what a launch must leave at zero.
_COUNT = 0x7FFFFFFF


@dataclass(frozen=True)
class ExpertBytes:
    """One expert as a checkpoint stores it."""

    w13: Tensor
    w13_scales: Tensor
    w2: Tensor
    w2_scales: Tensor


@dataclass(frozen=True)
class ExpertWeights:
    """The same weights for the kernels and for the reference."""

    packed: PackedExperts
    stored: Callable[[int], ExpertBytes]
    """What the reference reads of an expert, on the device of the packed ones."""


@dataclass(frozen=True)
class ExpertInputs:
    """What one launch is given beside weights, on the CPU."""

    latent: Tensor
    """Whole rows, padding included."""
    experts: Tensor
    shares: Tensor


def experts_trial(
    config: ExpertsConfig,
    before: ExpertInputs,
    weights: ExpertWeights,
    launch: Launch,
    device: torch.device,
) -> Trial:
    """Make the trial of a launch on copies of these inputs."""
    c, rows = config, before.experts.shape[0]
    latent, experts, shares = (
        tensor.to(device, copy=True) for tensor in (before.latent, before.experts, before.shares)
    )
    slots = rows * c.top_k
    workspace = make_workspace(c, device)
    inner, arrived = workspace.inner.fill_(torch.nan), workspace.arrived
    workspace.outputs.fill_(torch.nan)
    out = poisoned(rows + 1, latent.shape[1], dtype=torch.bfloat16, device=device)
    first_out, unused_inner = out.clone(), inner[slots:].clone()

    def run() -> None:
        launch(
            latent[:, : c.latent_size],
            experts,
            shares,
            weights.packed,
            workspace,
            out[:rows, : c.latent_size],
            config=c,
        )

    def judge() -> tuple[Judgement, ...]:
        written = out[:rows, : c.latent_size].clone()
        around = out.clone()
        around[:rows, : c.latent_size] = first_out[:rows, : c.latent_size]
        run()
        again = out[:rows, : c.latent_size]
        rounded = _expected(c, before, weights, torch.float32).to(torch.bfloat16)
        return (
            judge_close(
                "out",
                written,
                reference=_expected(c, before, weights, torch.float64),
                same_dtype=rounded,
            ),
            judge_bitwise("second run", again, written),
            judge_bitwise("around out", around, first_out),
            judge_bitwise("unused inner rows", inner[slots:], unused_inner),
            judge_bitwise("counters", arrived & _COUNT, torch.zeros_like(arrived)),
        )

    cost, facts = _counts(before, c, rows)
    return Trial(run=run, judge=judge, cost=cost, facts=facts)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument, or is not of K3's experts.
    """
    config = _recorded_config(call)
    packed = PackedExperts(
        gate_up=call.tensor("packed.gate_up").to(device),
        down=call.tensor("packed.down").to(device),
        wide_scales=bool(call.arguments.get("packed.wide_scales")),
        layout=weight_layout(device),
    )
    layout = call.arguments.get("packed.layout")
    if layout != packed.layout:
        raise RecordingError(
            f"{call.op}, {call.name}: expected weights in the order {packed.layout} of this GPU, "
            f"found {layout!r}: replay on a GPU like that of the recording"
        )

    def stored(expert: int) -> ExpertBytes:
        return ExpertBytes(*unpack_gate_up(packed, expert), *unpack_down(packed, expert))

    before = ExpertInputs(
        latent=call.tensor("latent"), experts=call.tensor("experts"), shares=call.tensor("shares")
    )
    return experts_trial(config, before, ExpertWeights(packed, stored), launch, device)


def _recorded_config(call: RecordedCall) -> ExpertsConfig:
    try:
        values: dict[str, Any] = {
            field.name: call.arguments[f"config.{field.name}"] for field in fields(ExpertsConfig)
        }
        return ExpertsConfig(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"{call.op}, {call.name}: expected a config of the kernel, found another ({error}): "
            "record the launch again with this version"
        ) from error


def _served(inputs: ExpertInputs, config: ExpertsConfig) -> Tensor:
    return (inputs.experts >= 0) & (inputs.experts < config.num_experts)


def _counts(inputs: ExpertInputs, config: ExpertsConfig, rows: int) -> tuple[Cost, dict[str, int]]:
    served = _served(inputs, config)
    slots, experts = int(served.sum()), int(inputs.experts[served].unique().numel())
    cost = experts_cost(config, rows, served_slots=slots, experts=experts)
    return cost, {"experts": experts, "slots": slots}


def _expected(
    config: ExpertsConfig, inputs: ExpertInputs, weights: ExpertWeights, dtype: torch.dtype
) -> Tensor:
    """Reference on the device of the weights; FP32 with the inner rounding, FP64 without.

    Expert by expert, in the order of their ids: thousands of de-quantised ones would not fit.
    """
    device = weights.packed.gate_up.device
    served = _served(inputs, config)
    latent = inputs.latent[:, : config.latent_size].to(device, dtype)
    total = torch.zeros_like(latent)
    for expert in inputs.experts[served].unique().tolist():
        rows, places = torch.where(inputs.experts == expert)
        one = Routing(
            experts=torch.zeros(len(rows), 1, dtype=torch.int64, device=device),
            weights=inputs.shares[rows, places][:, None].to(device, dtype),
        )
        total[rows.to(device)] += routed_experts(
            latent[rows.to(device)],
            one,
            _reference_weights(config, weights.stored(expert), dtype),
            inner_dtype=torch.bfloat16 if dtype == torch.float32 else None,
        )
    return total


def _reference_weights(
    config: ExpertsConfig, stored: ExpertBytes, dtype: torch.dtype
) -> MoeWeights:
    """One expert, de-quantised."""
    w13 = unpack_mxfp4(stored.w13, stored.w13_scales).to(dtype)
    w2 = unpack_mxfp4(stored.w2, stored.w2_scales).to(dtype)
    nothing = torch.empty(0)
    beta, linear_beta = config.situ_beta, config.situ_linear_beta
    return MoeWeights(
        gate=nothing,
        correction_bias=nothing,
        down_proj=nothing,
        norm=nothing,
        up_proj=nothing,
        w1=w13[None, : config.inner_size],
        w3=w13[None, config.inner_size :],
        w2=w2[None],
        shared=MlpWeights(nothing, nothing, nothing, beta=beta, linear_beta=linear_beta),
        top_k=1,
        scaling_factor=1.0,
        norm_eps=0.0,
    )

"""Kernels from elsewhere, judged by the same cases: measured, delayed and refused alike."""

import math
from typing import Any

import pytest
import torch

from k3decode import check
from k3decode.check import check_case
from k3decode.cost import Cost
from k3decode.dims import K3Dims
from k3decode.jitter import activations
from k3decode.launch_memory import LaunchMemory
from k3decode.op import Case, Launch, Trial
from k3decode.registry import op_named
from k3decode.tolerance import Judgement

ROUTER = op_named("router")
CPU = torch.device("cpu")
DIMS = K3Dims()


def _elsewhere(*tensors: Any, **_: Any) -> None:
    """A launch that names no parameters; it chooses expert 0 sixteen times."""
    _, _, experts, weights = tensors
    experts.fill_(0)
    weights.fill_(1 / experts.shape[1])


def _case(judgement: Judgement) -> Case:
    """A case that launches nothing and is judged like this."""

    def prepare(launch: Launch, device: torch.device) -> Trial:
        return Trial(run=lambda: None, judge=lambda: (judgement,), cost=Cost(1, 1, 1))

    return Case("made_up", "smoke", prepare)


def test_a_launch_that_names_no_parameters_is_measured_by_those_of_the_op() -> None:
    (case,) = (case for case in ROUTER.cases if case.name == "smoke_m3")
    report = check_case(ROUTER, case, _elsewhere, CPU)
    assert report.outcome == "failed"
    assert report.sentences[0].startswith("experts: an expert chosen twice")
    # Logits and bias; ids and weights of three rows and of one behind them.
    logits, chosen = 4 * DIMS.num_experts, 2 * 4 * DIMS.num_experts_per_token
    assert report.argument_bytes == 3 * logits + logits + 4 * chosen


def test_every_activation_of_a_call_arrives_late_and_no_weight() -> None:
    logits, bias, experts, weights = (torch.zeros(n) for n in (2, 3, 4, 5))
    late = activations(ROUTER, logits, bias, experts, weights=weights, scaling_factor=1.0)
    assert [tensor.numel() for tensor in late] == [2, 4, 5]
    assert ROUTER.weights == {"bias"}


def test_only_an_own_launch_may_not_allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "LaunchMemory", lambda: LaunchMemory(allocated_bytes=512))
    case = _case(Judgement("out", True, 0.0, ""))
    own, other = (check_case(ROUTER, case, one, CPU) for one in (ROUTER.launch, _elsewhere))
    assert (own.outcome, own.allocated_bytes) == ("failed", 512)
    assert (other.outcome, other.allocated_bytes) == ("passed", 512)


def test_what_cannot_be_judged_is_an_error_of_its_case() -> None:
    (case,) = (case for case in ROUTER.cases if case.name == "smoke_m3")

    def shrinks(logits: torch.Tensor, *tensors: torch.Tensor, **_: Any) -> None:
        # What a kernel that wrote beyond its outputs may leave behind.
        tensors[1].resize_(0)

    report = check_case(ROUTER, case, shrinks, CPU)
    assert report.outcome == "errored"
    assert "Error: " in report.sentences[0]


def test_an_error_without_a_number_fails_and_has_a_record() -> None:
    case = _case(Judgement("out", False, math.nan, "expected 1, found nan"))
    report = check_case(ROUTER, case, ROUTER.launch, CPU)
    assert (report.outcome, report.worst) == ("failed", None)
    assert '"worst": null' in report.record({})

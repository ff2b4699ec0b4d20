"""The cases themselves, judged without a GPU: a right launch passes, a wrong one does not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from k3decode.check import CaseReport, check_case
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import Case, Launch, Op
from k3decode.registry import OPS, op_named

from . import (
    exchange_launches,
    mla_torch_launches,
    moe_launches,
    projection_launches,
    torch_launches,
)

LAUNCHES: dict[str, Launch] = {
    "attn_res": torch_launches.attn_res,
    "embedding": torch_launches.embed_rows,
    "exchange_attn_res": exchange_launches.exchange_attn_res,
    "exchange_latent_norm": exchange_launches.exchange_latent_norm,
    "exchange_route": exchange_launches.exchange_route,
    "experts": moe_launches.run_experts,
    "kda": torch_launches.kda_step,
    "latent_norm": moe_launches.normalise_latent,
    "mla_combine": mla_torch_launches.mla_combine,
    "mla_decode": mla_torch_launches.mla_decode,
    "mla_prepare": mla_torch_launches.mla_prepare,
    "mla_query": mla_torch_launches.mla_query,
    "moe_tail": moe_launches.add_shared,
    "projection": projection_launches.project,
    "router": torch_launches.route_rows,
    "situ": moe_launches.activate_rows,
}
CPU = torch.device("cpu")


def _report(op: Op, case: Case, launch: Launch) -> CaseReport:
    return check_case(op, case, launch, CPU)


# The other groups are the same code at other numbers of rows; a CPU takes minutes for them.
@pytest.mark.parametrize(
    ("op", "case"),
    [
        pytest.param(op, case, id=f"{op.name}-{case.name}")
        for op in OPS
        for case in op.cases
        if case.group not in {"production", "rows"}
    ],
)
def test_cases_pass_a_right_launch(op: Op, case: Case) -> None:
    report = _report(op, case, LAUNCHES[op.name])
    assert report.outcome == "passed", report.line()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_case_fails_a_launch_that_writes_nothing(op: Op) -> None:
    def nothing(*tensors: object, **options: object) -> None:
        pass

    for case in op.cases[:3]:
        assert _report(op, case, nothing).outcome == "failed"


def test_a_launch_that_raises_is_an_error_of_its_case() -> None:
    def broken(*tensors: object, **options: object) -> None:
        raise RuntimeError("no such kernel")

    op = op_named("embedding")
    report = _report(op, op.cases[0], broken)
    assert report.outcome == "errored"
    assert report.sentences == ("RuntimeError: no such kernel",)


def _router_that_swaps_ties(
    logits: Tensor, bias: Tensor, experts: Tensor, weights: Tensor, **options: Any
) -> None:
    flipped = experts.clone()
    torch_launches.route_rows(logits.flip(-1), bias.flip(-1), flipped, weights, **options)
    experts.copy_(logits.shape[1] - 1 - flipped)


def _attn_res_that_spills_over(*tensors: Any, **options: Any) -> None:
    torch_launches.attn_res(*tensors, **options)
    out = tensors[5]
    out.as_strided(out.shape, out.stride(), out.storage_offset() + 1)[-1, -1] = 0.0


def _kda_that_forgets_padding(*tensors: Any, **options: Any) -> None:
    torch_launches.kda_step(*tensors, **options)
    slots, out = tensors[2], tensors[5]
    out[slots[:, 0] < 0] = float("nan")


def _kda_that_accepts_one(*tensors: Any, **options: Any) -> None:
    torch_launches.kda_step(
        *tensors, **{**options, "accepted": torch.ones_like(options["accepted"])}
    )


def _kda_that_keeps_every_state(
    projection: Tensor, weights: Any, slots: Tensor, *tensors: Any, **options: Any
) -> None:
    filled = torch.where(slots > 0, slots, slots[:, :1])
    inputs = (projection, weights, filled, *tensors)
    torch_launches.kda_step(*inputs, **options)


@pytest.mark.parametrize(
    ("name", "case", "launch"),
    [
        ("router", "ties_across_lanes", _router_that_swaps_ties),
        ("router", "all_equal", _router_that_swaps_ties),
        ("attn_res", "padded_rows", _attn_res_that_spills_over),
        ("kda", "null_slots", _kda_that_forgets_padding),
        ("kda", "q4_all_accepted", _kda_that_accepts_one),
        ("kda", "q4_dropped_states", _kda_that_keeps_every_state),
        ("projection", "infinities", projection_launches.project_without_the_last_columns),
        ("projection", "fp32_only", projection_launches.project_with_rows_in_bf16),
    ],
)
def test_corner_cases_catch_what_they_are_for(
    name: str, case: str, launch: Callable[..., None]
) -> None:
    op = op_named(name)
    (chosen,) = (c for c in op.cases if c.name == case)
    assert _report(op, chosen, launch).outcome == "failed"


def test_names_of_cases_are_unique_and_every_group_has_one() -> None:
    for op in OPS:
        names = [case.name for case in op.cases]
        assert len(set(names)) == len(names)
        assert {"smoke", "corner", "production"} <= {case.group for case in op.cases}


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rows_have_every_number_the_launches_accept(op: Op) -> None:
    rows = [case.name for case in op.cases if case.group == "rows"]
    found = {int(name.rsplit("_m", 1)[1]) for name in rows}
    assert found == set(range(1, MAX_ROWS + 1))

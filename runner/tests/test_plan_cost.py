"""The estimate of a plan's cost."""

import pytest

from k3bundle.plan import ServingCell
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.plan_cost import cell_seconds, plan_cost
from k3runner.subjects import load_subject
from k3runner.subjects.definition import DurationGuess
from k3runner.tiers import load_tier

_GUESS = DurationGuess(
    load_s=100.0, prefill_tokens_per_s=1000.0, step_ms=10.0, step_ms_per_request=1.0
)


def test_a_cell_is_its_rounds_of_prefill_and_steps() -> None:
    cell = ServingCell(
        cell_id="c",
        endpoint="completions",
        concurrency=4,
        prompt_tokens=500,
        output_tokens=100,
        warmup_requests=4,
        request_count=8,
    )
    # Three rounds of 4 x 500 prompt tokens and 100 steps of 13 ms.
    assert cell_seconds(cell, _GUESS) == pytest.approx(3 * (2.0 + 1.3))


def test_a_plan_pays_the_load_in_every_boot_and_no_gpu_where_there_is_none() -> None:
    plan = build_plan(load_tier("smoke"), load_subject("k3-tiny"), read_node_facts(), "paired")
    cost = plan_cost(plan, _GUESS)
    assert cost.boots == 4
    assert cost.wall_s > 400.0
    assert cost.gpu_hours == 0.0

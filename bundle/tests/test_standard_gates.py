"""A plan that asks for less than its tier says so, wherever its verdict is shown."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from k3bundle.canonical import plan_sha256
from k3bundle.derive import derive
from k3bundle.gates import Gates
from k3bundle.plan import Plan, ServingCell
from k3bundle.policy import Policy
from k3bundle.seal import seal
from k3bundle.speed_role import NonInferiority
from k3bundle.standard_gates import STANDARD, looser_than_standard
from k3bundle.traffic import TraceEntry, TraceReplay
from k3bundle.verify import Report, verify
from k3bundle_testing import example_signer, files_of, good_records
from k3bundle_testing.example_plan import example_plan
from k3bundle_testing.plan_defects import speed_gates
from k3bundle_testing.sealing import SEALED_AT_UTC

PLAN = good_records().plan


def gates(**changes: Any) -> Plan:
    return PLAN.model_copy(update={"gates": PLAN.gates.model_copy(update=changes)})


def verified(plan: Plan, policy: Policy) -> Report:
    records = good_records()
    run = records.run.model_copy(update={"plan_sha256": plan_sha256(plan)})
    files = files_of(replace(records, plan=plan, run=run))
    return verify(seal(files, example_signer(), SEALED_AT_UTC), policy)


def test_the_plan_of_a_tier_is_as_strict_as_its_tier() -> None:
    assert looser_than_standard(PLAN) == ()
    assert looser_than_standard(gates(maximum_error_rate=0.0, confidence=0.99)) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"maximum_error_rate": 0.5}, "maximum_error_rate is 0.5 instead of 0.01"),
        ({"minimum_decode_coverage": 0.0}, "minimum_decode_coverage is 0 instead of 0.95"),
        ({"confidence": 0.6}, "confidence is 0.6 instead of 0.95"),
        ({"tie_margin_nats": 9.0}, "tie_margin_nats is 9 instead of 0.002"),
    ],
)
def test_a_looser_gate_is_named(change: dict[str, float], words: str) -> None:
    assert looser_than_standard(gates(**change)) == (words,)


def test_every_threshold_is_held_against_its_standard() -> None:
    """A new gate must say which way is looser; these say what is done and are no thresholds."""
    ways = {"claims_speed", "drift_adjusted"}
    standard = STANDARD["quick"].gates
    strict = PLAN.model_copy(update={"tier": "quick", "gates": standard})
    assert looser_than_standard(strict) == ()
    for name in set(Gates.model_fields) - ways:
        value = getattr(standard, name)
        found = [
            looser_than_standard(
                strict.model_copy(update={"gates": standard.model_copy(update={name: other})})
            )
            for other in (value * 2 + 1, value * 0.5 - 1)
        ]
        assert [len(phrases) for phrases in found].count(1) == 1, name


def test_an_open_gate_fewer_pairs_and_a_wider_margin_are_looser() -> None:
    cells = (
        ServingCell(
            cell_id="s",
            endpoint="completions",
            concurrency=1,
            prompt_tokens=8,
            output_tokens=8,
            warmup_requests=0,
            request_count=1,
            speed=NonInferiority(margin=0.2),
        ),
    )
    plan = PLAN.model_copy(
        update={"tier": "standard", "cells": cells, "gates": speed_gates(PLAN.gates)}
    )
    found = looser_than_standard(plan)
    assert "maximum_throttled_share is open instead of 0.05" in found
    assert "the margin of s is 0.2 instead of 0.01" in found
    assert "s need not be faster, although the candidate's path serves it" in found
    assert "deployment default has 2 pairs instead of 4" in found
    assert "deployment default has 0 null pairs instead of 1" in found


def test_a_single_server_has_no_standard_of_boots() -> None:
    single = good_records(pairing="single").plan
    assert looser_than_standard(single) == ()
    assert set(STANDARD) == set(get_args(type(PLAN).model_fields["tier"].annotation)) - {"kernels"}


def test_a_loosened_plan_is_marked_and_refused_where_the_reader_wants_the_standard() -> None:
    loose = gates(maximum_error_rate=0.5)
    report = verified(loose, Policy())
    assert report.ok
    assert report.looser_than_standard == ("maximum_error_rate is 0.5 instead of 0.01",)
    assert report.verdict is not None
    assert (
        "The plan asks for less than the smoke tier: maximum_error_rate is 0.5 instead of 0.01."
        in report.verdict.limits
    )
    assert report.verdict.sentence.endswith(
        "The plan asks for less than the smoke tier, so this is no result of it."
    )
    (finding,) = verified(loose, Policy(require_standard=True)).findings
    assert finding.code == "plan-digest-mismatch"
    assert "maximum_error_rate is 0.5" in finding.why
    assert verified(PLAN, Policy(require_standard=True)).ok


def test_a_trace_beside_the_cells_of_a_tier_does_not_loosen_it() -> None:
    entry = TraceEntry(at_ns=0, prompt_tokens=16, output_tokens=8)
    trace = ServingCell(
        cell_id="serving-trace",
        endpoint="completions",
        traffic=TraceReplay(file_sha256="7" * 64, entries=(entry,)),
        concurrency=4,
        prompt_tokens=16,
        output_tokens=8,
        warmup_requests=1,
        request_count=1,
        speed=NonInferiority(),
    )
    plan = example_plan(tier="quick")
    assert looser_than_standard(plan.model_copy(update={"cells": (*plan.cells, trace)})) == ()
    wide = trace.model_copy(update={"speed": NonInferiority(margin=0.5)})
    assert looser_than_standard(plan.model_copy(update={"cells": (*plan.cells, wide)})) == (
        "the margin of serving-trace is 0.5 instead of 0.01",
    )


def test_the_limit_stays_short_for_a_plan_that_is_loose_throughout() -> None:
    loose = gates(
        minimum_decode_coverage=0.0,
        maximum_error_rate=1.0,
        maximum_prefix_hit_rate=1.0,
        confidence=0.6,
        logprob_tolerance_nats=9.0,
        tie_margin_nats=9.0,
    )
    limits = derive(replace(good_records(), plan=loose)).limits
    assert any(limit.endswith(" and 2 more.") for limit in limits)

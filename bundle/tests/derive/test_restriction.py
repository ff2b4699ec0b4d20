"""A plan that was restricted to some deployments says so wherever it says anything."""

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.plan import Plan, SkippedCell
from k3bundle.plan_rules import plan_findings
from k3bundle.scope_record import DeclaredDeployment, DeclaredScope
from k3bundle_testing import good_records
from k3bundle_testing.example_plan import example_plan

SCOPE = DeclaredScope(
    deployments=(
        DeclaredDeployment(name="default", gpu_count=1),
        DeclaredDeployment(name="wide", gpu_count=16),
    )
)


def restricted(**changes: object) -> Plan:
    update = {"only_deployments": ("default",), "scope": SCOPE, **changes}
    return example_plan(tier="quick").model_copy(update=update)


def run_of(plan: Plan, **changes: object) -> RunRecords:
    return good_records(tier="quick", plan=plan, **changes)


def test_a_restricted_pass_is_said_of_its_deployments_only() -> None:
    verdict = derive(run_of(restricted(), candidate_speed=1.3))
    assert verdict.status == "PASS"
    assert verdict.sentence.endswith("Said of default only, as was asked for.")
    assert verdict.claims[3].sentence == (
        "The candidate is faster in 1 of 1 supported cells, for default only."
    )
    assert verdict.headline[0].label.endswith("1 of 1 supported cells, for default only")
    assert (
        "Only default was evaluated, as asked for; the subject also declares wide."
        in verdict.limits
    )


@pytest.mark.parametrize("speed", [0.5, 1.0])
def test_other_verdicts_of_a_restricted_plan_say_it_too(speed: float) -> None:
    verdict = derive(run_of(restricted(), candidate_speed=speed))
    assert verdict.status != "PASS"
    assert verdict.sentence.endswith("Said of default only, as was asked for.")


def test_a_plan_without_restriction_says_nothing_of_it() -> None:
    verdict = derive(run_of(restricted(only_deployments=()), candidate_speed=1.3))
    assert "only" not in verdict.sentence
    assert not any("as asked for" in limit for limit in verdict.limits)


def test_a_restricted_plan_with_a_cell_of_another_deployment_contradicts_itself() -> None:
    other = SkippedCell(cell_id="wide-x", reason="It is not there.", deployment="wide")
    plan = restricted(cells=(*example_plan(tier="quick").cells, other))
    assert [finding.why for finding in plan_findings(plan)] == [
        "Expected a cell of default, found one of wide."
    ]

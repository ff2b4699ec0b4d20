"""How often a plan was run before is said, and changes no judgement."""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.earlier_record import EarlierRun, EarlierRuns
from k3bundle.verify import consistency_findings
from k3bundle_testing import good_records


def ran(number: int, verdict: str | None) -> EarlierRun:
    return EarlierRun.model_validate(
        {
            "run_id": f"{number:032x}",
            "started_at_utc": f"2026-01-01T0{number}:00:00Z",
            "verdict": verdict,
        }
    )


def after(*runs: EarlierRun, tier: str = "quick", **changes: object) -> RunRecords:
    earlier = EarlierRuns(why_unknown=None, runs=runs, left_out=0, other_plans=0)
    records = good_records(tier=tier, candidate_speed=1.3)
    return replace(records, earlier=earlier.model_copy(update=changes))


def test_the_third_run_of_a_plan_says_so_with_the_level_that_is_left() -> None:
    verdict = derive(after(ran(1, "FAIL"), ran(2, None)))
    assert verdict.status == "PASS"
    assert verdict.sentence.endswith("This is run 3 of its plan for this commit here.")
    assert verdict.limits[-1] == (
        "This plan was started 2 times here before: 1 FAIL, 1 never sealed. That one of 3 runs "
        "passes by chance has a probability of up to 15 % where a single run has 5 %."
    )


def test_the_first_run_says_nothing_and_is_judged_alike() -> None:
    first, third = derive(after()), derive(after(ran(1, "FAIL"), ran(2, None)))
    assert "of its plan" not in first.sentence
    assert not any("started" in limit for limit in first.limits)
    assert first.cells == third.cells
    assert first.claims == third.claims


def test_runs_of_other_plans_and_runs_not_listed_are_counted_too() -> None:
    verdict = derive(after(ran(1, "PASS"), left_out=4, other_plans=2))
    assert "This is run 6 of its plan" in verdict.sentence
    assert "5 times here before: 1 PASS, 4 not listed" in verdict.limits[-2]
    assert verdict.limits[-1] == "2 runs of other plans for this commit were started here before."


def test_a_tier_without_speed_counts_runs_and_names_no_level() -> None:
    verdict = derive(after(ran(1, "PASS"), tier="smoke"))
    assert "of its plan" not in verdict.sentence
    assert verdict.limits[-1] == "This plan was started 1 time here before: 1 PASS."


def test_without_a_ledger_the_verdict_says_that_it_is_not_known() -> None:
    unknown = {"why_unknown": "HOME is not set."}
    verdict = derive(after(**unknown))
    assert verdict.limits[-1] == "Whether the plan was run before is not known: HOME is not set."
    assert "of its plan" not in verdict.sentence


@pytest.mark.parametrize(
    "records",
    [
        after(ran(1, "PASS"), ran(1, None)),
        after(ran(1, "PASS").model_copy(update={"run_id": "0123456789abcdef" * 2})),
        after(ran(1, "PASS"), why_unknown="HOME is not set."),
        after(why_unknown="HOME is not set.", other_plans=1),
    ],
)
def test_a_ledger_that_contradicts_itself_is_refused(records: RunRecords) -> None:
    found = [one.why for one in consistency_findings(records, None)]
    assert any("earlier run" in why for why in found)

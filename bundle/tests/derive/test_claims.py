"""The four claims, the verdict above them, and the numbers shown first."""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.request import RequestRecord
from k3bundle.verdict import Verdict

from .changes import (
    change_requests,
    fail,
    update,
    with_coverage,
    without_cells,
)
from .records import (
    ABBA,
    CELLS,
    CHAT,
    GATES,
    GREEDY,
    SAMPLING,
    SERVING,
    SKIPPED,
    a_plan,
    a_run,
    boot_slots,
    coverage_of,
    logprobs,
)

SPEED_GATES = GATES.model_copy(update={"claims_speed": True})


def statuses(verdict: Verdict) -> dict[str, str]:
    return {claim.name: claim.status for claim in verdict.claims}


def with_fast_candidate(records: RunRecords, factor: float = 0.5) -> RunRecords:
    """The same run with candidate boots that take `factor` of the time."""

    def hurry(request: RequestRecord) -> RequestRecord:
        return request.model_copy(
            update={
                "sent_at_ns": round(request.sent_at_ns * factor),
                "ended_at_ns": round(request.ended_at_ns * factor),
            }
        )

    slots = [slot.slot for slot in records.plan.boots if slot.arm == "candidate"]
    return change_requests(records, hurry, cell="serving", slots=slots)


def wrong_answers(records: RunRecords) -> RunRecords:
    other = (*range(7), 99)
    changed = update(token_ids=other, logprobs=logprobs(other))
    slots = [slot.slot for slot in records.plan.boots if slot.arm == "candidate"]
    return change_requests(records, changed, cell="greedy", slots=slots)


def test_a_healthy_smoke_run_passes_and_never_claims_speed() -> None:
    verdict = derive(with_fast_candidate(a_run()))
    assert verdict.status == "PASS"
    assert verdict.sentence == (
        "PASS: both arms give the same tokens on 6 of 6 compared requests, the candidate path "
        "served 100 % of decode steps; speed is not judged by smoke. The plan asks for less than "
        "the smoke tier, so this is no result of it."
    )
    assert statuses(verdict) == {
        "isolated": "PASS",
        "bounded": "PASS",
        "correct": "PASS",
        "faster": "NOT_CLAIMED",
    }
    assert verdict.claims[3].sentence == "The smoke tier never claims speed."
    assert verdict.limits[0] == "Random weights."


def test_headline_numbers_of_a_healthy_run() -> None:
    verdict = derive(a_run())
    assert {number.name: number.value for number in verdict.headline} == {
        "decode_coverage_share": 1.0,
        "identical_greedy_requests_share": 1.0,
        "largest_logprob_difference_nats": 0.0,
        "feature_checks_passed_share": 1.0,
        # Four boots of 4 serving, 3 greedy, 2 structured, 6 sampling, 4 streaming and 4 chat.
        "requests_completed": 92.0,
    }


def test_headline_coverage_is_the_least_of_the_candidate() -> None:
    slot = boot_slots()[2]
    before, after = coverage_of("chat", slot, steps=40)
    stock = after.counts[0].model_copy(update={"path": "stock", "count": 1})
    records = with_coverage(
        a_run(), "chat", 2, before, after.model_copy(update={"counts": (*after.counts, stock)})
    )
    number = derive(records).headline[0]
    assert (number.name, number.value, number.cell_id) == (
        "decode_coverage_share",
        40 / 41,
        "chat",
    )
    assert "at least 97.5 % of decode steps" in derive(records).sentence


def test_headline_coverage_is_left_out_where_one_boot_has_none() -> None:
    verdict = derive(with_coverage(a_run(), "chat", 2))
    assert "decode_coverage_share" not in {number.name for number in verdict.headline}


def test_a_claim_names_the_cell_that_breaks_it() -> None:
    verdict = derive(wrong_answers(a_run()))
    assert verdict.status == "FAIL"
    assert statuses(verdict)["correct"] == "FAIL"
    assert verdict.claims[2].sentence.startswith("Cell greedy: The candidate gives other tokens")
    assert verdict.claims[2].cells == ("greedy",)
    assert "(cell greedy)" in verdict.sentence


def test_bounded_needs_coverage_of_cells_that_are_invalid_for_another_reason() -> None:
    failing = change_requests(a_run(), fail, cell="serving")
    assert statuses(derive(failing))["bounded"] == "PASS"
    uncovered = with_coverage(failing, "serving", 1)
    assert statuses(derive(uncovered))["bounded"] == "INVALID"
    assert "not proven in serving" in derive(uncovered).claims[1].sentence


@pytest.mark.parametrize("pairing_arm", ["baseline", "candidate"])
def test_a_single_server_claims_nothing(pairing_arm: str) -> None:
    boots = boot_slots((ABBA[0] if pairing_arm == "baseline" else ABBA[1],))
    verdict = derive(a_run(a_plan((*CELLS,), boots=boots, pairing="single")))
    assert verdict.status == "INCOMPLETE"
    assert set(statuses(verdict).values()) == {"NOT_CLAIMED"}
    assert verdict.sentence.startswith("INCOMPLETE: One server was measured")
    assert {c.cell_id for c in verdict.cells if c.status == "PASS"} == {
        "serving",
        "structured",
        "sampling",
        "streaming",
        "chat",
    }


def test_a_plan_that_skips_everything_is_incomplete() -> None:
    verdict = derive(a_run(a_plan((SKIPPED,))))
    assert verdict.status == "INCOMPLETE"
    assert "No cell was judged" in verdict.sentence


def test_a_run_without_results_is_incomplete() -> None:
    records = a_run()
    empty = replace(records, attempts=(), boots=(), cells=(), requests=(), coverage=(), counters=())
    verdict = derive(empty)
    assert verdict.status == "INCOMPLETE"
    assert {cell.status for cell in verdict.cells} == {"INVALID"}
    assert [number.value for number in verdict.headline] == [0.0]


def test_a_skipped_cell_beside_judged_ones_does_not_hinder() -> None:
    verdict = derive(a_run(a_plan((*CELLS, SKIPPED))))
    assert verdict.status == "PASS"
    assert "speed is not judged by smoke. 1 cell skipped." in verdict.sentence
    assert verdict.cells[-1].status == "SKIPPED"


@pytest.mark.parametrize("cells", [(SERVING, CHAT), (GREEDY, SERVING)])
def test_a_plan_that_cannot_support_a_claim_is_incomplete(cells: tuple[object, ...]) -> None:
    plan = a_plan().model_copy(update={"cells": cells})
    assert derive(a_run(plan)).status == "INCOMPLETE"


def test_a_run_in_which_everything_failed_is_never_better_than_invalid() -> None:
    verdict = derive(change_requests(a_run(), fail))
    assert verdict.status == "INVALID"
    assert statuses(verdict)["correct"] == "INVALID"
    assert {n.name: n.value for n in verdict.headline}["requests_completed"] == 0.0


@pytest.mark.parametrize("cell_id", ["greedy", "sampling", "structured", "streaming", "chat"])
def test_a_candidate_that_answers_nothing_fails_although_it_has_no_decode_step(
    cell_id: str,
) -> None:
    records = change_requests(a_run(), fail, cell=cell_id, slots=[1, 2])
    for slot in boot_slots()[1:3]:
        idle = coverage_of(cell_id, slot, steps=0)
        records = with_coverage(records, cell_id, slot.slot, *idle)
    verdict = derive(records)
    assert verdict.status == "FAIL"
    assert {c.cell_id for c in verdict.cells if c.status == "FAIL"} == {cell_id}


def test_fail_comes_before_invalid_before_incomplete() -> None:
    incomplete = without_cells(a_run(), lambda e: e.slot == 3 and e.cell_id == "chat")
    assert derive(incomplete).status == "INCOMPLETE"
    invalid = change_requests(incomplete, fail, cell="serving")
    assert derive(invalid).status == "INVALID"
    failing = change_requests(invalid, fail, cell="sampling", slots=[1])
    verdict = derive(failing)
    assert verdict.status == "FAIL"
    assert verdict.sentence.startswith("FAIL: The candidate passes")


def test_speed_is_claimed_where_the_tier_claims_it() -> None:
    records = with_fast_candidate(a_run(a_plan(gates=SPEED_GATES)))
    verdict = derive(records)
    assert verdict.status == "PASS"
    assert statuses(verdict)["faster"] == "PASS"
    assert verdict.claims[3].sentence == "The candidate is faster in 1 of 1 supported cells."


def test_one_slow_cell_breaks_the_claim() -> None:
    second = SERVING.model_copy(update={"cell_id": "serving-slow"})
    records = with_fast_candidate(a_run(a_plan((*CELLS, second), gates=SPEED_GATES)))
    verdict = derive(records)
    assert statuses(verdict)["faster"] == "INCONCLUSIVE"
    assert verdict.status == "INCONCLUSIVE"
    assert verdict.claims[3].cells == ("serving", "serving-slow")


def test_a_slower_candidate_fails_the_claim() -> None:
    verdict = derive(with_fast_candidate(a_run(a_plan(gates=SPEED_GATES)), 2.0))
    assert (verdict.status, statuses(verdict)["faster"]) == ("FAIL", "FAIL")


def test_speed_without_answers_is_not_a_pass() -> None:
    plan = a_plan((SERVING, SAMPLING), gates=SPEED_GATES)
    verdict = derive(with_fast_candidate(a_run(plan)))
    assert statuses(verdict)["faster"] == "INVALID"
    assert "that claim is NOT_CLAIMED" in verdict.claims[3].sentence
    assert verdict.status == "INCOMPLETE"


def test_garbage_is_not_fast() -> None:
    verdict = derive(with_fast_candidate(wrong_answers(a_run(a_plan(gates=SPEED_GATES)))))
    assert statuses(verdict)["faster"] == "INVALID"
    assert verdict.status == "FAIL"


def test_a_tier_that_claims_speed_needs_a_serving_cell() -> None:
    verdict = derive(a_run(a_plan((GREEDY, CHAT), gates=SPEED_GATES)))
    assert statuses(verdict)["faster"] == "NOT_CLAIMED"
    assert verdict.status == "INCOMPLETE"

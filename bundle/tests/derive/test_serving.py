"""The rule of a serving cell."""

from dataclasses import replace
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.request import RequestRecord
from k3bundle.verdict import (
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    CellResult,
    ServingEvidence,
)

from .changes import (
    change_requests,
    fail,
    update,
    with_counters,
)
from .records import (
    ABBA,
    CELLS,
    GATES,
    SERVING,
    a_plan,
    a_run,
    boot_slots,
    completed,
    counters_of,
    events,
)

SPEED_GATES = GATES.model_copy(update={"claims_speed": True})


def serving_cell(records: RunRecords) -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == SERVING.cell_id)


def invalid_serving(records: RunRecords) -> CellInvalid:
    cell = serving_cell(records)
    assert isinstance(cell, CellInvalid)
    return cell


def evidence_of(cell: CellResult) -> ServingEvidence:
    assert isinstance(cell, CellPass | CellFail | CellInconclusive | CellInvalid)
    assert isinstance(cell.evidence, ServingEvidence)
    return cell.evidence


def run_of_requests(count: int) -> RunRecords:
    cell = SERVING.model_copy(update={"request_count": count})
    return a_run(a_plan((cell, *CELLS[1:])))


def slowed(records: RunRecords, slot: int, factor: float) -> RunRecords:
    """The same run where one boot takes `factor` times as long for everything."""

    def slow(request: RequestRecord) -> RequestRecord:
        stretched = tuple(
            e.model_copy(update={"at_ns": round(e.at_ns * factor)}) for e in request.events
        )
        changes: dict[str, Any] = {
            "events": stretched,
            "sent_at_ns": round(request.sent_at_ns * factor),
            "ended_at_ns": round(request.ended_at_ns * factor),
        }
        return request.model_copy(update=changes)

    return change_requests(records, slow, cell="serving", slots=[slot])


def test_a_healthy_cell_passes_with_numbers_of_every_boot() -> None:
    cell = serving_cell(a_run())
    assert cell.status == "PASS"
    evidence = evidence_of(cell)
    assert [(b.slot, b.arm, b.pair) for b in evidence.boots] == [
        (0, "baseline", 0),
        (1, "candidate", 0),
        (2, "candidate", 1),
        (3, "baseline", 1),
    ]
    boot = evidence.boots[0]
    assert (boot.completed, boot.failed, boot.tpot_undefined) == (4, 0, 0)
    assert (boot.ttft_ms_p50, boot.tpot_ms_p50) == (20.0, 5.0)
    # Four requests of 8 tokens, one every 60 ms.
    assert boot.output_tokens_per_s == pytest.approx(32 / 0.24)
    assert {i.metric: i.ratio for i in evidence.intervals} == {
        "output_tokens_per_s": 1.0,
        "ttft_ms_p50": 1.0,
        "tpot_ms_p50": 1.0,
    }
    assert evidence.prefix_hit_rate == 0.0
    assert "16 of 16 requests" in cell.reason


def test_requests_with_undefined_tpot_are_counted_and_left_out() -> None:
    burst = update(events=events((20, 8)))
    records = change_requests(a_run(), burst, cell="serving", slots=[1], index=0)
    boot = evidence_of(serving_cell(records)).boots[1]
    assert (boot.tpot_undefined, boot.tpot_ms_p50) == (1, 5.0)


def test_zero_successes_are_invalid_and_have_no_numbers() -> None:
    cell = invalid_serving(change_requests(run_of_requests(32), fail, cell="serving"))
    assert cell.cause == "failed_requests"
    assert "32 of 32 requests failed" in cell.reason
    assert isinstance(cell.evidence, ServingEvidence)
    for boot in cell.evidence.boots:
        assert (boot.completed, boot.failed) == (0, 32)
        assert (boot.ttft_ms_p50, boot.tpot_ms_p50, boot.output_tokens_per_s) == (None, None, None)
    assert cell.evidence.intervals == ()


def test_zero_successes_are_invalid_even_where_all_may_fail() -> None:
    gates = GATES.model_copy(update={"maximum_error_rate": 1.0})
    records = change_requests(a_run(a_plan(gates=gates)), fail, cell="serving", slots=[1])
    assert invalid_serving(records).cause == "failed_requests"


def test_a_few_failures_make_the_cell_invalid_with_their_count() -> None:
    records = run_of_requests(64)
    for index in (3, 17, 40, 63):
        records = change_requests(records, fail, cell="serving", slots=[2], index=index)
    cell = invalid_serving(records)
    assert cell.cause == "failed_requests"
    assert cell.reason.startswith("4 of 64 requests failed in boot 2 (candidate)")


def test_failures_within_the_allowed_share_do_not_invalidate() -> None:
    gates = GATES.model_copy(update={"maximum_error_rate": 0.25})
    records = change_requests(a_run(a_plan(gates=gates)), fail, cell="serving", index=1)
    assert serving_cell(records).status == "PASS"


def test_a_short_answer_makes_the_cell_invalid_and_is_listed() -> None:
    planned = SERVING.model_copy(update={"output_tokens": 1024})
    records = a_run(a_plan((planned, *CELLS[1:])))
    assert serving_cell(records).status == "PASS"
    cell = invalid_serving(
        change_requests(records, update(outcome=completed(1)), cell="serving", slots=[1], index=2)
    )
    assert cell.cause == "wrong_length"
    assert "prompt 2 has 1 of 1024 asked for" in cell.reason


def test_another_length_than_planned_may_not_be_asked_for() -> None:
    asked = update(requested_tokens=4, outcome=completed(4))
    assert invalid_serving(change_requests(a_run(), asked, cell="serving")).cause == "wrong_length"


def test_a_warm_prefix_cache_makes_the_cell_invalid() -> None:
    warm = counters_of("boot-1.0", "serving", hits=(0, 620_000), queries=(1_000_000, 2_000_000))
    cell = invalid_serving(with_counters(a_run(), "serving", 1, *warm))
    assert cell.cause == "warm_prefix_cache"
    assert "served 62 % of the prompt tokens in boot 1 (candidate)" in cell.reason
    assert evidence_of(cell).prefix_hit_rate == 0.62


def test_cached_tokens_reported_per_request_count_too() -> None:
    warm = update(outcome=completed(8, prompt=16, cached=8))
    cell = invalid_serving(change_requests(a_run(), warm, cell="serving", slots=[0]))
    assert cell.cause == "warm_prefix_cache"
    assert "50 %" in cell.reason


def test_a_hit_share_at_the_limit_is_allowed() -> None:
    cool = counters_of("boot-1.0", "serving", hits=(5, 6), queries=(100, 200))
    assert serving_cell(with_counters(a_run(), "serving", 1, *cool)).status == "PASS"


@pytest.mark.parametrize(
    ("hits", "queries"), [((9, 0), (0, 64)), ((0, 0), (64, 0)), ((0, 65), (0, 64))]
)
def test_counters_that_cannot_be_right_make_the_cell_invalid(
    hits: tuple[float, float], queries: tuple[float, float]
) -> None:
    broken = counters_of("boot-2.0", "serving", hits=hits, queries=queries)
    cell = invalid_serving(with_counters(a_run(), "serving", 2, *broken))
    assert cell.cause == "warm_prefix_cache"
    assert "cannot be judged in boot 2" in cell.reason


def test_a_counter_that_vanishes_makes_the_cell_invalid() -> None:
    before, after = counters_of("boot-2.0", "serving")
    gone = after.model_copy(update={"counters": {}})
    cell = invalid_serving(with_counters(a_run(), "serving", 2, before, gone))
    assert "missing after the cell" in cell.reason


def test_missing_counters_are_not_reported_and_matter_only_for_speed() -> None:
    for gates, status in ((GATES, "PASS"), (SPEED_GATES, "INVALID")):
        records = change_requests(
            a_run(a_plan(gates=gates)), update(outcome=completed(8, cached=None)), cell="serving"
        )
        cell = serving_cell(replace(records, counters=()))
        assert cell.status == status
        assert evidence_of(cell).prefix_hit_rate is None


def test_speed_is_reported_and_does_not_gate_where_it_is_not_claimed() -> None:
    records = slowed(slowed(a_run(), 1, 3.0), 2, 3.0)
    cell = serving_cell(records)
    assert cell.status == "PASS"
    assert "candidate / baseline 0.333" in cell.reason
    assert "not judged by smoke" in cell.reason


# Four pairs: enough for bounds that are near the ratios.
@pytest.mark.parametrize(
    ("factors", "status"),
    [
        ((0.80, 0.81, 0.80, 0.79), "PASS"),
        ((1.25, 1.24, 1.25, 1.26), "FAIL"),
        ((0.90, 1.10, 0.95, 1.05), "INCONCLUSIVE"),
    ],
)
def test_claimed_speed_is_judged_by_the_bounds(factors: tuple[float, ...], status: str) -> None:
    boots = boot_slots((*ABBA, *ABBA))
    records = a_run(a_plan(boots=boots, gates=SPEED_GATES))
    candidates = [slot.slot for slot in boots if slot.arm == "candidate"]
    for slot, factor in zip(candidates, factors, strict=True):
        records = slowed(records, slot, factor)
    cell = serving_cell(records)
    assert cell.status == status
    assert "over 4 pairs" in cell.reason
    assert "smallest gain this would find" in cell.reason


def test_one_pair_never_decides_speed() -> None:
    records = a_run(a_plan(boots=boot_slots(("baseline", "candidate")), gates=SPEED_GATES))
    cell = serving_cell(slowed(records, 1, 0.1))
    assert cell.status == "INCONCLUSIVE"
    assert "one pair gives no bounds" in cell.reason


@pytest.mark.parametrize("slots", [(0, 1, 2, 3), (2,)])
def test_undefined_throughput_in_any_pair_never_decides_speed(slots: tuple[int, ...]) -> None:
    boots = boot_slots((*ABBA, *ABBA))
    records = a_run(a_plan(boots=boots, gates=SPEED_GATES))
    for slot in (1, 2, 5, 6):
        records = slowed(records, slot, 0.5)
    assert serving_cell(records).status == "PASS"
    still = update(sent_at_ns=0, ended_at_ns=0, events=events((0, 8)))
    cell = serving_cell(change_requests(records, still, cell="serving", slots=slots))
    assert cell.status == "INCONCLUSIVE"
    assert "not defined in every pair" in cell.reason


def test_missing_doubled_and_swapped_requests_are_named() -> None:
    records = a_run()
    one = next(r for r in records.requests if r.cell_id == "serving" and r.boot_id == "boot-1.0")
    without = replace(records, requests=tuple(r for r in records.requests if r is not one))
    assert invalid_serving(without).cause == "missing_requests"
    assert "3 of 4 planned requests are recorded in boot 1" in invalid_serving(without).reason
    twice = replace(records, requests=(*records.requests, one))
    assert "recorded twice in boot 1: prompt 0" in invalid_serving(twice).reason
    swapped = change_requests(
        records, update(prompt_sha256="00" * 32), cell="serving", slots=[1], index=2
    )
    assert "Prompt 2 in boot 1 is not the prompt of boot 0" in invalid_serving(swapped).reason
    renumbered = change_requests(records, update(index=9), cell="serving", slots=[1], index=3)
    assert "prompt numbers in boot 1" in invalid_serving(renumbered).reason

"""Which records count, and plans that cannot be judged."""

from dataclasses import replace
from typing import Any

import pytest

from k3bundle.derive import derive
from k3bundle.derive.plan_shape import pairs, plan_problem
from k3bundle.derive.selection import select
from k3bundle.journal import index_journal
from k3bundle.journal_rules import cell_findings
from k3bundle.plan import BootSlot, Plan
from k3bundle.run import AttemptRecord, CellAborted
from k3bundle.verdict import CellInvalid

from .changes import (
    change_requests,
    fail,
    without_cells,
)
from .records import (
    AT,
    CELLS,
    GREEDY,
    a_plan,
    a_run,
    arm_spec,
    boot_events,
    boot_slots,
    finished,
    requests_of,
)


def test_a_finished_cell_cannot_be_measured_again_until_it_pleases() -> None:
    records = change_requests(a_run(), fail, cell="greedy", slots=[2])
    assert derive(records).status == "FAIL"
    slot = records.plan.boots[2]
    again = tuple(
        snapshot.model_copy(update={"boot_id": "boot-2.1"})
        for snapshot in records.coverage
        if snapshot.boot_id == "boot-2.0" and snapshot.cell_id == "greedy"
    )
    resumed = replace(
        records,
        attempts=(
            *records.attempts,
            AttemptRecord(attempt=1, started_at_utc=AT, resumed=True, torn_lines_dropped=1),
        ),
        boots=(*records.boots, *boot_events(slot, attempt=1)),
        cells=(*records.cells, finished(2, "greedy", attempt=1)),
        requests=(*records.requests, *requests_of(GREEDY, "boot-2.1")),
        coverage=(*records.coverage, *again),
    )
    selection = select(resumed)
    assert [boot.boot_id for boot in selection.boots("greedy")] == [
        "boot-0.0",
        "boot-1.0",
        "boot-2.0",
        "boot-3.0",
    ]
    verdict = derive(resumed)
    assert (verdict.status, verdict.resumed) == ("FAIL", True)
    assert derive(a_run()).resumed is False
    found = [finding.why for finding in cell_findings(resumed, index_journal(resumed))]
    assert "Expected greedy to finish once in a slot." in found


def test_a_cell_counts_in_the_attempt_that_finished_it() -> None:
    slot = a_plan().boots[2]
    records = without_cells(a_run(), lambda e: e.slot == 2 and e.cell_id == "greedy")
    resumed = replace(
        records,
        boots=(*records.boots, *boot_events(slot, attempt=1)),
        cells=(*records.cells, finished(2, "greedy", attempt=1)),
    )
    assert [boot.boot_id for boot in select(resumed).boots("greedy")] == [
        "boot-0.0",
        "boot-1.0",
        "boot-2.1",
        "boot-3.0",
    ]
    assert select(resumed).boot_ids(2) == ("boot-2.0", "boot-2.1")
    apart = "Boots of pair 1 are of several attempts, so not close in time."
    assert apart in derive(resumed).limits
    assert apart not in derive(records).limits


def test_requests_of_a_boot_that_did_not_finish_do_not_count() -> None:
    stray = tuple(fail(request) for request in requests_of(GREEDY, "boot-2.7"))
    records = a_run()
    assert derive(replace(records, requests=(*stray, *records.requests))) == derive(records)


def test_a_missing_boot_is_named_with_its_reason_and_leaves_the_run_incomplete() -> None:
    records = without_cells(a_run(), lambda e: e.slot == 2 and e.cell_id == "greedy")
    aborted = CellAborted(
        boot_id="boot-2.0",
        slot=2,
        cell_id="greedy",
        at_utc=AT,
        cause="engine_ended",
        reason="The engine ended.",
    )
    verdict = derive(replace(records, cells=(*records.cells, aborted)))
    cell = next(cell for cell in verdict.cells if cell.cell_id == "greedy")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "missing_boots"
    assert cell.reason == "The cell did not finish in 1 boot of 4 (boot 2). The engine ended."
    assert verdict.status == "INCOMPLETE"


def test_a_boot_cannot_stand_in_for_another_slot_or_arm() -> None:
    records = without_cells(a_run(), lambda e: e.slot == 2)
    # Boot 1 is of the same arm, boot 3 of the other one.
    for lender in (1, 3):
        borrowed = tuple(
            finished(lender, cell.cell_id).model_copy(update={"slot": 2})
            for cell in records.plan.cells
        )
        assert select(replace(records, cells=(*records.cells, *borrowed))).boot_ids(2) == ()
    renamed = tuple(
        event.model_copy(update={"arm": "baseline"}) if event.event == "started" else event
        for event in records.boots
    )
    whole = a_run()
    assert select(replace(whole, boots=renamed)).boot_ids(1) == ()
    assert select(whole).boot_ids(1) == ("boot-1.0",)


def test_boots_and_cells_out_of_the_plan_do_not_count() -> None:
    records = a_run()
    extra = (finished(9, "greedy"), finished(0, "another"), finished(0, "greedy", attempt=3))
    selection = select(replace(records, cells=(*records.cells, *extra)))
    assert set(selection.cells) == {cell.cell_id for cell in CELLS}
    assert selection.boots("greedy")[0].boot_id == "boot-0.0"


def changed(**changes: Any) -> Plan:
    return a_plan().model_copy(update=changes)


ONE_SLOT = BootSlot(slot=0, arm="candidate", pair=0)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (changed(boots=(*boot_slots(), ONE_SLOT)), "names boot 0 twice"),
        (changed(cells=(*CELLS, GREEDY)), "two cells named greedy"),
        (changed(arms=(arm_spec("baseline"),) * 2), "defines the baseline arm twice"),
        (changed(arms=(arm_spec("baseline"),)), "candidate arm, which the plan does not define"),
        (changed(boots=boot_slots(("baseline", "baseline"))), "Pair 0 of the plan is not one"),
        (changed(boots=boot_slots(("baseline", "candidate", "candidate"))), "Pair 1 of the plan"),
        (
            changed(
                arms=(
                    arm_spec("baseline"),
                    arm_spec("candidate").model_copy(update={"expected_path": "stock"}),
                )
            ),
            "Both arms of the plan expect the path stock",
        ),
    ],
)
def test_a_plan_that_cannot_be_judged_never_passes(plan: Plan, words: str) -> None:
    assert words in str(plan_problem(plan))
    verdict = derive(a_run(plan))
    assert verdict.status in {"INVALID", "INCOMPLETE"}
    assert words in verdict.claims[0].sentence


def test_a_cell_that_no_boot_runs_is_never_judged() -> None:
    cells = tuple(cell.model_copy(update={"deployment": "wide"}) for cell in CELLS)
    verdict = derive(a_run(a_plan(cells)))
    assert verdict.status == "INCOMPLETE"
    for cell in verdict.cells:
        assert isinstance(cell, CellInvalid)
        assert cell.cause == "missing_boots"
        assert cell.reason == "No boot of the plan runs the cell."


def test_a_plan_in_abba_order_has_two_pairs() -> None:
    assert plan_problem(a_plan()) is None
    assert [(p.number, p.baseline.slot, p.candidate.slot) for p in pairs(a_plan())] == [
        (0, 0, 1),
        (1, 3, 2),
    ]

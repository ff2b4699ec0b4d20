"""Conditions of a serving cell change its status and leave its numbers as they are."""

from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.coverage import EngineCounters
from k3bundle.derive import derive
from k3bundle.derive.restart import START_TIME
from k3bundle.derive.speculation import ACCEPTED, DRAFT_TOKENS, DRAFTS
from k3bundle.plan import Deployment
from k3bundle.verdict import CellInvalid, CellPass, CellResult, CellSkipped, ServingEvidence

from .changes import change_requests, update, with_counters
from .client_records import a_client
from .records import GATES, MS, SERVING, a_plan, a_run, boot_slots, completed, counters_of

LIMITS: dict[str, Any] = {
    "maximum_client_lag_ms": 5.0,
    "maximum_client_cpu_share": 0.85,
    "maximum_concurrency_shortfall": 0.05,
}


def serving(records: RunRecords) -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == "serving")


def throughputs(cell: CellResult) -> list[float | None]:
    assert not isinstance(cell, CellSkipped)
    assert isinstance(cell.evidence, ServingEvidence)
    return [boot.output_tokens_per_s for boot in cell.evidence.boots]


def with_client(slot: int, **process: Any) -> RunRecords:
    # The example's requests follow one another.
    cell = SERVING.model_copy(update={"concurrency": 1})
    records = a_run(a_plan((cell,), gates=GATES.model_copy(update=LIMITS)))
    cells = tuple(
        event.model_copy(update={"client": a_client(**process)})
        if event.slot == slot and event.cell_id == "serving"
        else event
        for event in records.cells
    )
    return RunRecords(**{**vars(records), "cells": cells})


def test_a_client_that_kept_up_is_in_the_evidence() -> None:
    cell = serving(with_client(1))
    assert isinstance(cell, CellPass)
    assert isinstance(cell.evidence, ServingEvidence)
    boot = cell.evidence.boots[1]
    assert (boot.client_lag_p99_ms, boot.client_cpu_share) == (0.5, 0.1)
    assert boot.achieved_concurrency == 1.0


@pytest.mark.parametrize(
    ("process", "words"),
    [
        ({"lag_ms_p99": 900.0, "lag_ms_max": 900.0}, "was 900 ms late (p99)"),
        ({"cpu_ns": 230 * MS}, "used 95.8 % of a core"),
    ],
)
def test_b7_a_client_that_measures_itself_makes_the_cell_invalid(
    process: dict[str, Any], words: str
) -> None:
    cell = serving(with_client(1, **process))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "client_bound"
    assert cell.reason.startswith("In boot 1 (candidate) ")
    assert words in cell.reason
    assert throughputs(cell) == throughputs(serving(with_client(1)))


def test_b20_a_harness_that_sends_one_at_a_time_makes_the_cell_invalid() -> None:
    wide = SERVING.model_copy(update={"concurrency": 4, "request_count": 8})
    gates = GATES.model_copy(update=LIMITS)
    cell = serving(a_run(a_plan((wide,), gates=gates)))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "concurrency_not_reached"
    assert "1 requests were in flight on average where 4 were planned" in cell.reason


def test_b9_an_engine_that_was_restarted_makes_the_cell_invalid() -> None:
    before, after = counters_of("boot-2.0", "serving")
    again = after.model_copy(update={"counters": {**after.counters, START_TIME: 20.0}})
    first = before.model_copy(update={"counters": {**before.counters, START_TIME: 10.0}})
    cell = serving(with_counters(a_run(), "serving", 2, first, again))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "engine_restarted"
    assert "In boot 2 (candidate) the engine process after the cell" in cell.reason


def speculating(slots: tuple[int, ...], drafts: float, accepted: float) -> RunRecords:
    """A run of seven draft tokens where some boots have these counts and the others good ones."""
    plan = a_plan(boots=tuple(s.model_copy(update={"deployment": "k7"}) for s in boot_slots()))
    cells = tuple(cell.model_copy(update={"deployment": "k7"}) for cell in plan.cells)
    deployments = (Deployment(name="k7", draft_tokens=7),)
    records = a_run(plan.model_copy(update={"cells": cells, "deployments": deployments}))
    for slot in range(4):
        before, after = counters_of(f"boot-{slot}.0", "serving")
        counts = (drafts, 7 * drafts, accepted) if slot in slots else (10.0, 70.0, 25.0)
        grown = dict(zip((DRAFTS, DRAFT_TOKENS, ACCEPTED), counts, strict=True))
        records = with_counters(
            records, "serving", slot, _with(before, dict.fromkeys(grown, 0.0)), _with(after, grown)
        )
    return records


def _with(snapshot: EngineCounters, more: dict[str, float]) -> EngineCounters:
    return snapshot.model_copy(update={"counters": {**snapshot.counters, **more}})


def test_the_acceptance_length_is_in_the_evidence() -> None:
    cell = serving(speculating((), 0, 0))
    assert isinstance(cell, CellPass)
    assert isinstance(cell.evidence, ServingEvidence)
    assert cell.evidence.boots[0].mean_acceptance_length == 3.5


def test_b10_speculation_that_did_not_run_has_no_length_and_makes_the_cell_invalid() -> None:
    cell = serving(speculating((0, 1, 2, 3), 0, 0))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "speculation"
    assert "speculation was planned and did not run" in cell.reason
    assert isinstance(cell.evidence, ServingEvidence)
    assert cell.evidence.boots[0].mean_acceptance_length is None


def test_b26_useless_drafts_of_the_candidate_alone_are_a_failure() -> None:
    cell = serving(speculating((1, 2), 10, 0))
    assert cell.status == "FAIL"
    assert cell.reason.startswith("Speculation works in the baseline and not in the candidate: ")
    assert "in boot 1, none of 70 draft tokens was accepted" in cell.reason
    both = serving(speculating((0, 1, 2, 3), 10, 0))
    assert isinstance(both, CellInvalid)
    assert both.cause == "speculation"


def test_tokens_of_the_text_and_estimates_are_reported() -> None:
    told = update(outcome=completed(8), text_tokens=6, counted_by="estimate")
    cell = serving(change_requests(a_run(), told, cell="serving", slots=[1]))
    assert not isinstance(cell, CellSkipped)
    assert isinstance(cell.evidence, ServingEvidence)
    boot = cell.evidence.boots[1]
    assert (boot.text_share, boot.estimated_requests) == (0.75, 4)

"""A serving cell whose client or engine was not what was to be measured, end to end."""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.client import ClientStats
from k3bundle.coverage import EngineCounters
from k3bundle.derive import derive
from k3bundle.derive.restart import START_TIME
from k3bundle.derive.speculation import ACCEPTED, DRAFT_TOKENS, DRAFTS
from k3bundle.plan import Deployment, Plan, ServiceObjective
from k3bundle.request import Failed, RequestRecord
from k3bundle.verdict import BootMeasurement, CellInvalid, CellPass, ServingEvidence

from .changes import change_requests, update, with_counters
from .client_records import a_client
from .records import CELLS, GATES, MS, SERVING, a_plan, a_run, counters_of

STRICT = GATES.model_copy(
    update={
        "maximum_client_lag_ms": 10.0,
        "maximum_client_cpu_share": 0.85,
        "maximum_concurrency_shortfall": 0.05,
    }
)


def strict_run() -> RunRecords:
    """Requests one after the other, as a healthy run of one stream has them."""
    cell = SERVING.model_copy(update={"concurrency": 1})
    run = a_run(a_plan((cell, *CELLS[1:]), gates=STRICT))
    return one_by_one(run)


def one_by_one(run: RunRecords) -> RunRecords:
    def place(request: RequestRecord) -> RequestRecord:
        return request.model_copy(update={"sent_at_ns": request.index * 60 * MS})

    return change_requests(run, place, cell=SERVING.cell_id)


def with_client(run: RunRecords, client: ClientStats, slot: int = 1) -> RunRecords:
    cells = tuple(
        event.model_copy(update={"client": client})
        if event.event == "finished" and (event.slot, event.cell_id) == (slot, SERVING.cell_id)
        else event
        for event in run.cells
    )
    return replace(run, cells=cells)


def invalid(run: RunRecords) -> CellInvalid:
    cell = next(cell for cell in derive(run).cells if cell.cell_id == SERVING.cell_id)
    assert isinstance(cell, CellInvalid)
    return cell


def measured(run: RunRecords) -> BootMeasurement:
    cell = next(cell for cell in derive(run).cells if cell.cell_id == SERVING.cell_id)
    assert isinstance(cell, CellPass), cell
    assert isinstance(cell.evidence, ServingEvidence)
    return cell.evidence.boots[0]


def test_healthy_run_has_every_number() -> None:
    boot = measured(strict_run())
    # Eight tokens: the first after 20 ms, then one every 5 ms; a request every 60 ms.
    assert (boot.ttft_ms_p50, boot.ttft_ms_p99, boot.first_answer_ms_p50) == (20.0, 20.0, 20.0)
    assert (boot.itl_ms_p50, boot.itl_ms_p90, boot.itl_ms_p99) == (5.0, 5.0, 5.0)
    assert (boot.e2e_ms_p50, boot.e2e_ms_p99) == (55.0, 55.0)
    assert boot.tokens_per_s_per_user == pytest.approx(200.0)
    assert boot.p90_interactivity_tokens_per_s == pytest.approx(200.0)
    assert boot.output_tokens_per_s == pytest.approx(32 / 0.24)
    assert boot.achieved_concurrency == pytest.approx(1.0)
    assert (boot.client_lag_p99_ms, boot.client_cpu_share) == (0.5, 0.1)
    assert boot.burst_share == 0.0
    assert boot.estimated_requests == 0
    unknown = (boot.tokens_per_s_per_gpu, boot.goodput_per_s, boot.mean_acceptance_length)
    assert unknown == (None, None, None)


def test_goodput_and_rate_of_a_gpu_are_those_of_the_plan() -> None:
    objective = ServiceObjective(ttft_ms=20.0, tpot_ms=None)
    cell = SERVING.model_copy(update={"objective": objective})
    plan = a_plan((cell, *CELLS[1:]))
    eight = Deployment(name="default", gpu_count=8)
    boot = measured(one_by_one(a_run(plan.model_copy(update={"deployments": (eight,)}))))
    assert boot.goodput_per_s == pytest.approx(4 / 0.24)
    assert boot.tokens_per_s_per_gpu == pytest.approx(32 / 0.24 / 8)


def test_b7_client_that_could_not_keep_up_invalidates_the_cell() -> None:
    late = with_client(strict_run(), a_client(lag_ms_p99=900.0, lag_ms_max=900.0))
    cell = invalid(late)
    assert cell.cause == "client_bound"
    assert cell.reason.startswith("In boot 1 (candidate) the event loop of the load client was 900")


def test_b20_harness_that_sends_one_at_a_time_invalidates_the_cell() -> None:
    cell = SERVING.model_copy(update={"concurrency": 2})
    found = invalid(one_by_one(a_run(a_plan((cell, *CELLS[1:]), gates=STRICT))))
    assert found.cause == "concurrency_not_reached"


def counters(slot: int, before: dict[str, float], after: dict[str, float]) -> list[EngineCounters]:
    """The healthy counters of the cell in one boot, with these beside them."""
    plain = counters_of(f"boot-{slot}.0", SERVING.cell_id)
    return [
        snapshot.model_copy(update={"counters": {**snapshot.counters, **more}})
        for snapshot, more in zip(plain, (before, after), strict=True)
    ]


def test_b9_engine_that_was_restarted_in_the_cell_invalidates_it() -> None:
    snapshots = counters(2, {START_TIME: 100.0}, {START_TIME: 160.0})
    cell = invalid(with_counters(strict_run(), SERVING.cell_id, 2, *snapshots))
    assert cell.cause == "engine_restarted"
    assert cell.reason == (
        "In boot 2 (candidate) the engine process after the cell is not the one before it."
    )


def drafting() -> Plan:
    plan = a_plan()
    seven = Deployment(name="default", draft_tokens=7)
    return plan.model_copy(update={"deployments": (seven,)})


def drafts_in_every_boot(run: RunRecords, drafts: float, accepted: float) -> RunRecords:
    none = {DRAFTS: 0.0, DRAFT_TOKENS: 0.0, ACCEPTED: 0.0}
    some = {DRAFTS: drafts, DRAFT_TOKENS: 7 * drafts, ACCEPTED: accepted}
    for slot in range(4):
        run = with_counters(run, SERVING.cell_id, slot, *counters(slot, none, some))
    return run


def test_drafts_have_their_mean_acceptance_length() -> None:
    boot = measured(drafts_in_every_boot(a_run(drafting()), 10, 30))
    assert boot.mean_acceptance_length == 4.0


def test_b10_planned_drafts_that_did_not_run_invalidate_the_cell() -> None:
    cell = invalid(drafts_in_every_boot(a_run(drafting()), 0, 0))
    assert cell.cause == "speculation"
    assert "did not run" in cell.reason


def test_b26_drafts_of_which_none_is_accepted_invalidate_the_cell() -> None:
    cell = invalid(drafts_in_every_boot(a_run(drafting()), 10, 0))
    assert cell.cause == "speculation"
    assert "useless" in cell.reason


def test_b11_answers_of_another_length_are_listed() -> None:
    short = Failed(error="wrong_length", detail="The answer has 1 tokens, 8 were asked for.")
    run = change_requests(
        strict_run(),
        update(outcome=short, token_ids=None, events=()),
        cell=SERVING.cell_id,
        slots=[0],
        index=2,
    )
    cell = invalid(run)
    assert cell.cause == "wrong_length"
    assert "prompt 2: The answer has 1 tokens, 8 were asked for" in cell.reason

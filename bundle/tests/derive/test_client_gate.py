"""A client that measures itself is found out."""

from typing import Any

import pytest

from k3bundle.client import ClientStats, WarmUp
from k3bundle.derive.client_gate import client_problem, read_client
from k3bundle.plan import ServingCell
from k3bundle.request import RequestRecord
from k3bundle.traffic import PoissonArrivals

from .client_records import a_client
from .records import GATES, MS, SERVING, a_request

STRICT = GATES.model_copy(
    update={
        "maximum_client_lag_ms": 10.0,
        "maximum_client_cpu_share": 0.85,
        "maximum_concurrency_shortfall": 0.05,
    }
)


def full(streams: int = 2, count: int = 8) -> list[RequestRecord]:
    """Requests of a client that keeps its streams full."""
    return [
        a_request(index=at, sent_at_ns=at // streams * 60 * MS, ended_at_ns=60 * MS)
        for at in range(count)
    ]


def problem(
    client: ClientStats | None = None,
    requests: list[RequestRecord] | None = None,
    cell: ServingCell = SERVING,
    **gates: Any,
) -> str | None:
    reading = read_client(client or a_client(), requests or full(), cell.concurrency)
    found = client_problem(reading, cell, STRICT.model_copy(update=gates))
    return None if found is None else f"{found.cause}: {found.reason}"


def test_client_that_keeps_up_is_no_problem() -> None:
    assert problem() is None


def test_b7_event_loop_that_is_900_ms_late_is_a_problem() -> None:
    found = problem(a_client(lag_ms_p99=900.0, lag_ms_max=900.0))
    assert found is not None
    assert found.startswith("client_bound: ")
    assert "900 ms late" in found


def test_b7_process_without_time_left_is_a_problem() -> None:
    assert problem(a_client(cpu_ns=204 * MS)) is None
    found = problem(a_client(cpu_ns=209 * MS))
    assert found is not None
    assert "87 % of a core" in found


def test_b7_busiest_process_counts() -> None:
    idle, busy = a_client(cpu_ns=1 * MS), a_client(cpu_ns=230 * MS, lag_ms_p99=30.0)
    both = idle.model_copy(update={"processes": idle.processes + busy.processes})
    reading = read_client(both, full(), 2)
    assert reading.cpu_share == pytest.approx(230 / 240)
    assert reading.lag_ms_p99 == 30.0


def test_b20_one_at_a_time_is_a_problem() -> None:
    found = problem(requests=full(streams=1))
    assert found is not None
    assert found.startswith(
        "concurrency_not_reached: 1 requests were in flight on average where 2 were planned"
    )


def test_b20_shortfall_of_five_percent_is_allowed() -> None:
    pauses = [
        a_request(index=at, sent_at_ns=at // 2 * 62 * MS, ended_at_ns=60 * MS) for at in range(8)
    ]
    assert problem(requests=pauses) is None
    pauses = [
        a_request(index=at, sent_at_ns=at // 2 * 65 * MS, ended_at_ns=60 * MS) for at in range(8)
    ]
    assert problem(requests=pauses) is not None


def test_cell_with_fewer_requests_than_streams_has_all_of_them_in_flight() -> None:
    cell = SERVING.model_copy(update={"concurrency": 64, "request_count": 4})
    assert problem(requests=full(streams=4, count=4), cell=cell) is None


def test_open_loop_is_judged_by_its_schedule_and_not_by_concurrency() -> None:
    cell = SERVING.model_copy(update={"traffic": PoissonArrivals(requests_per_s=5.0)})
    punctual = [request.model_copy(update={"due_at_ns": request.sent_at_ns}) for request in full(1)]
    assert problem(requests=punctual, cell=cell) is None
    late = [
        request.model_copy(update={"due_at_ns": max(0, request.sent_at_ns - 30 * MS)})
        for request in punctual
    ]
    found = problem(requests=late, cell=cell)
    assert found is not None
    assert "30 ms after they were due" in found


def test_b19_warm_up_that_never_became_steady_is_a_problem_where_speed_is_claimed() -> None:
    restless = a_client().model_copy(update={"warmup": WarmUp(rounds_ms=(9.0,) * 4, steady=False)})
    assert problem(restless) is None
    found = problem(restless, claims_speed=True)
    assert found == "not_steady: the warm-up ended before its rounds took equally long"


def test_gate_that_is_not_set_is_not_judged() -> None:
    bound = a_client(lag_ms_p99=900.0, cpu_ns=240 * MS)
    found = problem(
        bound,
        full(streams=1),
        maximum_client_lag_ms=None,
        maximum_client_cpu_share=None,
        maximum_concurrency_shortfall=None,
    )
    assert found is None


def test_estimated_times_per_token_are_counted() -> None:
    requests = [a_request(counted_by="estimate"), a_request(index=1)]
    assert read_client(a_client(), requests, 2).estimated_requests == 1

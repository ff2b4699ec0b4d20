import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.derive.metrics.concurrency import achieved_concurrency, peak_concurrency
from k3bundle.request import RequestRecord

from .changes import fail
from .records import MS, a_request


def spans(*start_and_length_ms: tuple[float, float]) -> list[RequestRecord]:
    return [
        a_request(
            index=index, sent_at_ns=round(start * MS), ended_at_ns=round(length * MS), events=()
        )
        for index, (start, length) in enumerate(start_and_length_ms)
    ]


def closed_loop(
    streams: int, count: int, length_ms: float, pause_ms: float = 0.0
) -> list[RequestRecord]:
    return spans(*((at // streams * (length_ms + pause_ms), length_ms) for at in range(count)))


def test_b20_semaphore_of_one_is_one_whatever_was_asked() -> None:
    one_by_one = spans(*((50.0 * at, 50.0) for at in range(64)))
    assert achieved_concurrency(one_by_one, 64) == pytest.approx(1.0)
    assert achieved_concurrency(one_by_one, 8) == pytest.approx(1.0)


def test_b20_streams_that_are_filled_up_at_once_are_what_was_asked() -> None:
    assert achieved_concurrency(closed_loop(8, 64, 50.0), 8) == pytest.approx(8.0)


def test_pauses_between_requests_show() -> None:
    assert achieved_concurrency(closed_loop(8, 64, 50.0, pause_ms=50.0), 8) == pytest.approx(
        4.0, rel=0.01
    )


def test_filling_up_and_emptying_do_not_count() -> None:
    ramp = spans((0, 100), (1, 100), (2, 100), (3, 100), (100, 100), (101, 100))
    assert achieved_concurrency(ramp, 4) == pytest.approx(4.0, rel=0.03)


def test_all_at_one_moment_are_in_flight_together() -> None:
    assert achieved_concurrency(spans(*[(5, 20)] * 4), 4) == 4.0
    assert achieved_concurrency(spans((5, 20)), 1) == 1.0


def test_failed_requests_occupy_a_stream_too() -> None:
    requests = [fail(request) for request in spans((0, 50), (0, 50), (50, 50), (50, 50))]
    assert achieved_concurrency(requests, 2) == pytest.approx(2.0)


def test_nothing_sent_is_unknown() -> None:
    assert achieved_concurrency([], 4) is None
    assert peak_concurrency([]) == 0


def test_peak_counts_a_request_that_follows_at_once_as_one() -> None:
    assert peak_concurrency(spans((0, 50), (50, 50))) == 1
    assert peak_concurrency(spans((0, 51), (50, 50), (60, 1))) == 2


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_mean_never_exceeds_the_peak(times: list[tuple[int, int]], asked: int) -> None:
    requests = spans(*times)
    found = achieved_concurrency(requests, asked)
    assert found is not None
    assert 0 <= found <= peak_concurrency(requests) + 1e-9

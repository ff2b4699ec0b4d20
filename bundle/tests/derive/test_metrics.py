"""Serving metrics on the published streams and at their edges."""

import pytest

from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms

from .changes import (
    fail,
)
from .records import (
    MS,
    a_request,
    completed,
    events,
)


def test_metrics_count_tokens_where_chunks_hold_several() -> None:
    stream = a_request(
        events=events((100, 1), (107, 6), (114, 6)), outcome=completed(13), requested_tokens=13
    )
    assert ttft_ms(stream) == 100.0
    assert tpot_ms(stream) == pytest.approx(14 / 12)


@pytest.mark.parametrize("tokens_in_event", [1, 7])
@pytest.mark.parametrize("usage", [1, 7])
def test_tpot_is_undefined_where_all_tokens_came_in_one_event(
    tokens_in_event: int, usage: int
) -> None:
    stream = a_request(events=events((50, tokens_in_event)), outcome=completed(usage))
    assert ttft_ms(stream) == 50.0
    assert tpot_ms(stream) is None


def test_tpot_is_undefined_where_all_events_came_at_one_moment() -> None:
    assert tpot_ms(a_request(events=events((0, 1), (0, 7)))) is None


def test_tpot_is_undefined_where_time_runs_backwards() -> None:
    assert tpot_ms(a_request(events=events((50, 1), (40, 7)))) is None


def test_tpot_is_undefined_where_usage_is_less_than_the_first_event() -> None:
    assert tpot_ms(a_request(events=events((10, 6), (20, 1)), outcome=completed(6))) is None


def test_reasoning_opens_the_window() -> None:
    thought = events((30, 1), (40, 1), (50, 1), channel="reasoning")
    stream = a_request(events=(*thought, *events((60, 1))), outcome=completed(4))
    assert ttft_ms(stream) == 30.0
    assert tpot_ms(stream) == 10.0


def test_a_stream_of_reasoning_only_is_measured() -> None:
    stream = a_request(events=events((30, 1), (45, 1), channel="reasoning"), outcome=completed(2))
    assert (ttft_ms(stream), tpot_ms(stream)) == (30.0, 15.0)


def test_events_without_tokens_do_not_open_the_window() -> None:
    stream = a_request(events=events((5, 0), (30, 1), (40, 1), (99, 0)), outcome=completed(2))
    assert (ttft_ms(stream), tpot_ms(stream)) == (30.0, 10.0)


def test_a_failed_request_has_no_latency() -> None:
    stream = a_request()
    broken = stream.model_copy(update={"outcome": fail(stream).outcome})
    assert (ttft_ms(broken), tpot_ms(broken)) == (None, None)


def test_a_completed_request_without_events_has_no_latency() -> None:
    assert (ttft_ms(a_request(events=())), tpot_ms(a_request(events=()))) == (None, None)


def test_throughput_counts_usage_over_the_span_of_all_requests() -> None:
    first = a_request(sent_at_ns=10 * MS, ended_at_ns=50 * MS, outcome=completed(30))
    second = a_request(sent_at_ns=30 * MS, ended_at_ns=80 * MS, outcome=completed(20))
    assert output_tokens_per_s((first, second)) == 500.0


def test_throughput_of_failed_requests_takes_their_time_and_no_tokens() -> None:
    answered = a_request(sent_at_ns=0, ended_at_ns=50 * MS, outcome=completed(10))
    broken = fail(a_request(sent_at_ns=0, ended_at_ns=100 * MS))
    assert output_tokens_per_s((answered, broken)) == 100.0


def test_throughput_is_none_where_nothing_completed_or_no_time_passed() -> None:
    assert output_tokens_per_s(()) is None
    assert output_tokens_per_s((fail(a_request()),)) is None
    assert output_tokens_per_s((a_request(ended_at_ns=0),)) is None

"""First answer and end-to-end latency."""

from k3bundle.derive.metrics.e2e import e2e_ms
from k3bundle.derive.metrics.first_answer import first_answer_ms
from k3bundle.derive.metrics.ttft import ttft_ms

from .changes import fail
from .records import MS, a_request, completed, events

THOUGHT = events((30, 1), (40, 1), (50, 1), channel="reasoning")


def test_b4_first_answer_comes_after_the_reasoning_and_ttft_before() -> None:
    stream = a_request(events=(*THOUGHT, *events((60, 1))), outcome=completed(4))
    assert ttft_ms(stream) == 30.0
    assert first_answer_ms(stream) == 60.0


def test_b4_a_stream_of_reasoning_only_has_no_first_answer() -> None:
    assert first_answer_ms(a_request(events=THOUGHT, outcome=completed(3))) is None


def test_first_answer_without_reasoning_is_ttft() -> None:
    assert first_answer_ms(a_request()) == ttft_ms(a_request()) == 20.0


def test_end_to_end_is_the_last_token_and_not_the_end_marker() -> None:
    stream = a_request(events=events((20, 1), (45, 7), (58, 0)), ended_at_ns=60 * MS)
    assert e2e_ms(stream) == 45.0


def test_a_failed_or_empty_request_has_neither() -> None:
    for request in (fail(a_request()), a_request(events=())):
        assert (first_answer_ms(request), e2e_ms(request)) == (None, None)

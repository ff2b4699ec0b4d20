"""Rates for a user and for a GPU, and goodput."""

import pytest

from k3bundle.derive.metrics.goodput import goodput_per_s, is_good
from k3bundle.derive.metrics.gpu_rate import tokens_per_s_per_gpu
from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.user_rate import p90_interactivity, tokens_per_s_per_user
from k3bundle.plan import ServiceObjective
from k3bundle.request import StreamEvent

from .changes import fail
from .records import MS, a_request, completed, events


def paced(gap_ms: float, count: int = 8) -> tuple[StreamEvent, ...]:
    return events(*((20 + gap_ms * at, 1) for at in range(count)))


def test_b1_rate_of_a_user_counts_tokens() -> None:
    stream = a_request(events=events((100, 1), (107, 6), (114, 6)), outcome=completed(13))
    assert tokens_per_s_per_user([stream]) == pytest.approx(857, abs=0.5)


def test_rate_of_a_user_is_the_median_of_requests() -> None:
    requests = [a_request(events=paced(gap)) for gap in (4.0, 5.0, 10.0)]
    assert tokens_per_s_per_user(requests) == pytest.approx(200.0)


def test_b3_request_in_one_chunk_has_no_rate_instead_of_an_infinite_one() -> None:
    one = a_request(events=events((50, 7)), outcome=completed(7))
    single = a_request(events=events((50, 1)), outcome=completed(1))
    assert tokens_per_s_per_user([one, single]) is None
    assert p90_interactivity([one, single]) is None
    assert tokens_per_s_per_user([one, a_request(events=paced(5.0))]) == pytest.approx(200.0)


def test_p90_interactivity_is_the_reciprocal_of_p90_of_latency() -> None:
    # Latencies 1..10 ms: their 90th percentile is 9.1 ms. The 90th percentile of rates would be
    # that of the fast tokens.
    at, times = 20.0, [(20.0, 1)]
    for gap in range(1, 11):
        at += gap
        times.append((at, 1))
    stream = a_request(events=events(*times), outcome=completed(11))
    assert p90_interactivity([stream]) == pytest.approx(1000 / 9.1)


def test_rate_of_a_gpu_divides_throughput() -> None:
    requests = [a_request(sent_at_ns=0, ended_at_ns=80 * MS)]
    assert output_tokens_per_s(requests) == 100.0
    assert tokens_per_s_per_gpu(requests, 8) == 12.5
    assert tokens_per_s_per_gpu(requests, 0) is None
    assert tokens_per_s_per_gpu([fail(a_request())], 8) is None


def test_b5_zero_successes_have_no_number_at_all() -> None:
    broken = [fail(a_request(index=index)) for index in range(32)]
    assert output_tokens_per_s(broken) is None
    assert tokens_per_s_per_user(broken) is None
    assert p90_interactivity(broken) is None
    assert goodput_per_s(broken, ServiceObjective(ttft_ms=1.0, tpot_ms=None)) is None
    assert [tpot_ms(request) for request in broken] == [None] * 32


def test_goodput_counts_requests_within_every_limit() -> None:
    good = a_request(events=paced(5.0), sent_at_ns=0, ended_at_ns=60 * MS)
    late = a_request(events=events((90, 1), (95, 7)), sent_at_ns=0, ended_at_ns=100 * MS)
    slow = a_request(events=paced(9.0), sent_at_ns=0, ended_at_ns=90 * MS)
    broken = fail(a_request(sent_at_ns=0, ended_at_ns=50 * MS))
    objective = ServiceObjective(ttft_ms=50.0, tpot_ms=6.0)
    found = [is_good(request, objective) for request in (good, late, slow, broken)]
    assert found == [True, False, False, False]
    # One good answer in the 100 ms from the first one sent to the last one ended.
    assert goodput_per_s([good, late, slow, broken], objective) == 10.0


def test_goodput_of_requests_that_miss_is_0_and_not_unknown() -> None:
    request = a_request(sent_at_ns=0, ended_at_ns=60 * MS)
    assert goodput_per_s([request], ServiceObjective(ttft_ms=1.0, tpot_ms=None)) == 0.0


def test_undefined_time_per_token_meets_no_limit_on_it() -> None:
    one = a_request(events=events((10, 8)))
    assert not is_good(one, ServiceObjective(ttft_ms=None, tpot_ms=6.0))
    assert is_good(one, ServiceObjective(ttft_ms=50.0, tpot_ms=None))


def test_limit_itself_is_met() -> None:
    assert is_good(a_request(), ServiceObjective(ttft_ms=20.0, tpot_ms=5.0))

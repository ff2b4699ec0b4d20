import pytest

from k3bundle.derive.metrics.itl import burst_share, itl_ms, itl_percentile_ms
from k3bundle.derive.metrics.tpot import tpot_ms

from .changes import fail
from .records import a_request, completed, events


def test_b1_chunk_of_six_tokens_is_six_latencies() -> None:
    stream = a_request(events=events((100, 1), (107, 6), (114, 6)), outcome=completed(13))
    assert [(round(latency, 9), tokens) for latency, tokens in itl_ms(stream)] == [
        (1.166666667, 6),
        (1.166666667, 6),
    ]
    # Never 7 ms, which is the distance of events.
    assert itl_percentile_ms([stream], 0.99) == pytest.approx(7 / 6)
    assert tpot_ms(stream) == pytest.approx(14 / 12)


def test_tokens_weigh_and_not_events() -> None:
    # Nine tokens at 1 ms in one event, one token at 20 ms.
    stream = a_request(events=events((10, 1), (19, 9), (39, 1)), outcome=completed(11))
    assert itl_percentile_ms([stream], 0.5) == pytest.approx(1.0)
    assert itl_percentile_ms([stream], 1.0) == pytest.approx(20.0)


def test_first_event_has_no_latency_and_neither_has_an_event_without_tokens() -> None:
    stream = a_request(events=events((10, 3), (15, 0), (20, 1)), outcome=completed(4))
    assert itl_ms(stream) == ((10.0, 1),)


def test_b2_bursts_withhold_percentiles_and_keep_tpot() -> None:
    # Four of five events come at once with the one before: flushed together.
    times = [(20 + 5 * (at // 5) + 0.01 * (at % 5), 1) for at in range(20)]
    stream = a_request(events=events(*times), outcome=completed(20))
    share = burst_share([stream])
    assert share == pytest.approx(16 / 19)
    assert itl_percentile_ms([stream], 0.5) is None
    assert tpot_ms(stream) == pytest.approx(15.04 / 19)


def test_b2_a_fifth_of_short_gaps_is_still_given() -> None:
    stream = a_request(
        events=events((10, 1), (15, 1), (20, 1), (25, 1), (25.1, 1), (30.1, 1)),
        outcome=completed(6),
    )
    assert burst_share([stream]) == 0.2
    assert itl_percentile_ms([stream], 0.5) == pytest.approx(5.0)


def test_nothing_to_measure_has_no_percentile() -> None:
    assert burst_share([]) is None
    assert itl_percentile_ms([], 0.5) is None
    assert itl_percentile_ms([fail(a_request())], 0.5) is None
    assert itl_percentile_ms([a_request(events=events((10, 8)))], 0.5) is None


def test_events_that_go_back_have_no_negative_latency() -> None:
    request = a_request(events=events((20, 1), (10, 4)))
    assert itl_ms(request) == ((0.0, 4),)

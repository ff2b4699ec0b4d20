import pytest

from k3bundle.derive.metrics.text_share import text_share

from .changes import fail
from .records import a_request, completed


def test_b12_text_that_holds_40_percent_of_usage_shows() -> None:
    requests = [a_request(outcome=completed(100), text_tokens=40)] * 3
    assert text_share(requests) == pytest.approx(0.4)


def test_text_share_counts_only_answers_that_were_counted_again() -> None:
    requests = [
        a_request(outcome=completed(100), text_tokens=99),
        a_request(outcome=completed(100)),
        fail(a_request(text_tokens=5)),
    ]
    assert text_share(requests) == pytest.approx(0.99)
    assert text_share([a_request()]) is None

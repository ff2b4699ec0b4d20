import pytest

from k3runner.load.steady import is_steady


def test_b19_first_round_is_apart_and_the_next_three_agree() -> None:
    assert is_steady([41.0, 1.2, 1.2, 1.2])


@pytest.mark.parametrize(
    "rounds",
    [
        [],
        [1.2],
        [1.2, 1.2, 1.2],
        [41.0, 1.2, 1.2],
        [41.0, 1.2, 1.2, 1.4],
        [41.0, 9.0, 1.2, 1.2],
        [1.2, 1.2, 1.2, 1.2, 41.0],
    ],
)
def test_rounds_that_do_not_agree_yet_are_not_steady(rounds: list[float]) -> None:
    assert not is_steady(rounds)


def test_later_rounds_may_agree_where_earlier_ones_did_not() -> None:
    assert is_steady([41.0, 9.0, 2.0, 1.2, 1.25, 1.21])


def test_agreement_is_ten_percent_of_the_median() -> None:
    assert is_steady([5.0, 100.0, 109.9, 90.1])
    assert not is_steady([5.0, 100.0, 111.0, 90.1])

"""Numbers in sentences: a person reads them, so what was measured has no exponent."""

import math

import pytest

from k3bundle.derive.sentences import gain, milliseconds, plain


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.00009, "under 0.01 %"),
        (0.00012345, "0.0123 %"),
        (0.0321, "3.21 %"),
        (0.9996, "100 %"),
        (9.9949, "999 %"),
        (9.995, "over 1000 %"),
        (43.8, "over 1000 %"),
        (math.exp(700), "over 1000 %"),
    ],
)
def test_a_gain_has_no_exponent(share: float, words: str) -> None:
    assert gain(share) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.1234, "0.123"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1000"),
        (12345.6, "12346"),
        (-2500.0, "-2500"),
        (1e12, "1e+12"),
    ],
)
def test_a_measured_number_has_three_digits_and_all_before_the_point(
    value: float, words: str
) -> None:
    assert plain(value) == words
    assert milliseconds(value) == f"{words} ms"

import pytest

from k3server.views.wording import (
    Quantity,
    bytes_text,
    number_text,
    percent_text,
    quantity,
    title_sentence,
    visible,
)

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (1.0, "100"),
        (0.5, "50"),
        (0.998, "99.8"),
        (0.9999, "99.99"),
        (0.99999, "99.999"),
        (0.99999999, "> 99.9999"),
        (0.00001, "0.001"),
        (1e-9, "< 0.0001"),
    ],
)
def test_percent_never_rounds_to_a_full_hundred(share: float, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12.0, "12"),
        (1234567.0, f"1{THIN}234{THIN}567"),
        (1234.56, f"1{THIN}235"),
        (123.456, "123.5"),
        (1.2345, "1.23"),
        (0.5, "0.5"),
        (0.01234, "0.0123"),
        (3.1e-6, "3.1\N{MULTIPLICATION SIGN}10⁻⁶"),
        (-2.5, "-2.50"),
    ],
)
def test_number_keeps_three_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_quantity_takes_its_unit_from_the_name() -> None:
    assert quantity("decode_coverage_share", 0.25) == Quantity("25", "%")
    assert quantity("serving_ttft_ms_p50", 12.5) == Quantity("12.50", "ms")
    assert quantity("output_tokens_per_s", 80.0) == Quantity("80", "tokens/s")
    assert quantity("speed_ratio", 1.5) == Quantity("1.50", "\N{MULTIPLICATION SIGN}")
    assert quantity("boots", 4.0) == Quantity("4", "")


def test_bytes_have_a_binary_unit() -> None:
    assert bytes_text(0) == "0 bytes"
    assert bytes_text(1023) == "1023 bytes"
    assert bytes_text(1536) == "1.5 KiB"
    assert bytes_text(24 * 2**30) == "24.0 GiB"
    assert bytes_text(2**60) == "1048576.0 TiB"


def test_title_sentence_leaves_out_what_the_badge_says() -> None:
    assert title_sentence("PASS", "PASS: both arms agree.") == "Both arms agree."
    assert title_sentence("FAIL", "The PASS: is not a prefix.") == "The PASS: is not a prefix."
    assert title_sentence("PASS", "") == ""


def test_visible_keeps_what_can_be_seen() -> None:
    assert visible("plain, äöü, 漢字, ✓\n\tand lines") == "plain, äöü, 漢字, ✓\n\tand lines"
    assert visible("a\u202eb\x00c\ufeff") == "a⟦U+202E⟧b⟦U+0000⟧c⟦U+FEFF⟧"

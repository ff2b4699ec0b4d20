"""Numbers as a person reads them: never rounded into a different statement."""

import pytest

from k3bundle_testing import good_records
from k3runner import wording
from k3runner.visible import one_line, visible


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "\N{EN DASH}"),
        (0.0, "0 %"),
        (0.0004, "< 0.1 %"),
        (0.25, "25 %"),
        (0.958, "95.8 %"),
        (0.99951, "> 99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_percent_never_rounds_up_to_all_or_down_to_none(share: float | None, text: str) -> None:
    assert wording.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (41.234, "41.2"),
        (5.2, "5.2"),
        (1234.5, "1\N{NARROW NO-BREAK SPACE}234"),
        (4.1e-6, "4.1\N{MULTIPLICATION SIGN}10⁻⁶"),
        (0.31, "0.31"),
    ],
)
def test_digits_keeps_three_significant(value: float, text: str) -> None:
    assert wording.digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.4, "0 s"), (59.4, "59 s"), (65, "1 min 05 s"), (3720, "1 h 02 min")]
)
def test_seconds_reads_as_a_duration(value: float, text: str) -> None:
    assert wording.seconds(value) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("decode_coverage_share", 0.5, "50 %"),
        ("candidate_ttft_ms", 39.42, "39.4 ms"),
        ("output_tokens_per_s", 180.4, "180 tokens/s"),
        ("throughput_ratio", 1.0312, "1.031 \N{MULTIPLICATION SIGN}"),
        ("largest_difference_nats", 0.0, "0 nats"),
        ("requests_completed", 88.0, "88"),
    ],
)
def test_number_with_unit_takes_the_unit_from_the_name(name: str, value: float, text: str) -> None:
    assert str(wording.number_with_unit(name, value)) == text


@pytest.mark.parametrize(
    ("gain", "text"),
    [(0.0, "0 %"), (0.34, "34 %"), (1.87, "a factor of 2.9"), (72, "a factor of 73")],
)
def test_effect_large_gains_are_factors(gain: float, text: str) -> None:
    assert wording.effect(gain) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1\N{NARROW NO-BREAK SPACE}023 B"), (2**30, "1 GiB")]
)
def test_bytes_text_uses_binary_units(count: int, text: str) -> None:
    assert wording.bytes_text(count) == text


def test_cell_phrase_says_something_different_for_every_kind() -> None:
    phrases = [wording.cell_phrase(cell) for cell in good_records().plan.cells]

    assert len(set(phrases)) == len(phrases)
    assert "4 timed completions streams, 2 at a time, 16 tokens in, 8 out" in phrases


@pytest.mark.parametrize(
    "character", ["\x00", "\x1b", "\x7f", "\u200b", "\u202e", "\u2066", "\ue000"]
)
def test_visible_names_characters_that_act(character: str) -> None:
    assert visible(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"


def test_visible_keeps_ordinary_text_in_any_script() -> None:
    assert visible("ttft 41 ms · 中文 é ✓") == "ttft 41 ms · 中文 é ✓"


def test_one_line_cuts_with_an_ellipsis() -> None:
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("the engine had ended before", 20) == "the engine had…"
    # Hardly anything would be left of it.
    assert one_line("found " + "x" * 40, 20) == "found xxxxxxxxxxxxx…"
    assert one_line("ab\r\ncd", 40) == "ab⟨U+000D⟩ cd"

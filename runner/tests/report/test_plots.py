"""Charts put values where they belong, also at the edges."""

import math
import re

import pytest

from k3runner.report import plots
from k3runner.report.view import BootDot, CoverageBar, IntervalRow, ServingChart, TokenRow


def chart_of(*values: float | None) -> ServingChart:
    arms = ("baseline", "candidate", "candidate", "baseline")
    dots = tuple(BootDot(i, arms[i], i // 2, value) for i, value in enumerate(values))
    return ServingChart("cell", "TTFT", "ms", "lower", dots)


def interval(lower: float | None, ratio: float, upper: float | None) -> IntervalRow:
    return IntervalRow("cell", "TTFT", 2, ratio, lower, upper, 0.95, None, judged=False)


def bar(expected: int, steps: int, *, available: bool = True) -> CoverageBar:
    return CoverageBar("cell", "candidate", "candidate", expected, steps, available, ())


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (1, 1), (1.01, 1.5), (41, 50), (86.5, 100), (100, 100), (0.0031, 0.004), (7e5, 8e5)],
)
def test_nice_ceiling_is_round_and_not_below(value: float, top: float) -> None:
    assert plots.nice_ceiling(value) == pytest.approx(top)


def test_boot_dots_begin_at_zero_and_higher_values_are_higher() -> None:
    drawn = str(plots.boot_dots(chart_of(10.0, 20.0, 0.0, 40.0)))

    circles = [float(y) for y in re.findall(r'<circle cx="[\d.]+%" cy="([\d.]+)"', drawn)]
    diamonds = [float(y) for y in re.findall(r'<svg x="[\d.]+%" y="([\d.]+)"', drawn)]
    assert circles[0] > diamonds[0] > circles[1]
    assert diamonds[1] == 132.0
    assert drawn.count('class="pair"') == 2


def test_boot_dots_without_a_value_say_so() -> None:
    drawn = str(plots.boot_dots(chart_of(None, None)))

    assert drawn.count(">none<") == 2
    assert "boot 0 baseline no value" in drawn


def test_boot_dots_of_nothing_is_a_chart_without_dots() -> None:
    assert "<circle" not in str(plots.boot_dots(chart_of()))


def test_ratio_interval_centre_is_one() -> None:
    drawn = str(plots.ratio_interval(interval(0.9, 1.0, 1.1), math.log(1.2)))

    assert '<svg x="50.000%"' in drawn
    assert "bounds 0.900 and 1.100" in drawn


def test_ratio_interval_outside_the_axis_points_outwards() -> None:
    drawn = str(plots.ratio_interval(interval(1e-9, 1.0, 1e9), 40.0))

    assert "\u2039" in drawn
    assert "\u203a" in drawn


def test_ratio_interval_of_one_pair_has_no_bounds() -> None:
    drawn = str(plots.ratio_interval(interval(None, 1.2, None), math.log(1.2)))

    assert "no bounds from 2 pairs" in drawn
    assert 'class="interval"' not in drawn


def test_ratio_axis_ends_where_the_interval_is_cut() -> None:
    assert plots.ratio_axis(0.0) == pytest.approx((1 / 1.1, 1.1))
    assert plots.ratio_axis(99.0) == pytest.approx((0.25, 4.0))


def test_coverage_bar_outlines_the_steps_of_another_path() -> None:
    whole, part = (
        str(plots.coverage_bar(bar(80, 80), 0.95)),
        str(plots.coverage_bar(bar(20, 80), 0.95)),
    )

    assert "bar other" not in whole
    assert '<rect x="25.000%" y="4" width="75.000%"' in part
    assert "25 % of 80 decode steps on candidate; gate 95 %" in part


@pytest.mark.parametrize(
    ("shown", "words"),
    [(bar(0, 0), "no decode step"), (bar(0, 0, available=False), "not reported by the engine")],
)
def test_coverage_bar_without_counts_is_empty_and_says_why(shown: CoverageBar, words: str) -> None:
    drawn = str(plots.coverage_bar(shown, 0.95))

    assert words in drawn
    assert "bar candidate" not in drawn


def test_token_row_is_one_tick_per_event_taller_for_several_tokens() -> None:
    drawn = str(plots.token_row(TokenRow(1, "candidate", (10.0, 20.0), (1, 4)), 20.0))

    ticks = re.findall(r'<line x1="([\d.]+)%" y1="([\d.]+)"[^>]*class="token candidate"', drawn)
    assert ticks == [("49.750", "8"), ("99.500", "4")]
    assert "boot 1, candidate: 5 tokens, first after 10 ms" in drawn


def test_token_row_of_no_token_says_so() -> None:
    assert "no token" in str(plots.token_row(TokenRow(0, "baseline", (), ()), 0.0))

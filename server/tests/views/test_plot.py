import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.verdict import BootMeasurement, RatioInterval
from k3server.views.plot import ratio_plot, strip_plot

RATES = st.floats(min_value=0, max_value=1e12)
RATIOS = st.floats(min_value=1e-9, max_value=1e9)


def boots(*rates: float | None) -> list[BootMeasurement]:
    return [
        BootMeasurement(
            slot=slot,
            arm="candidate" if slot % 2 else "baseline",
            pair=slot // 2,
            completed=4,
            failed=0,
            ttft_ms_p50=None,
            tpot_ms_p50=None,
            tpot_undefined=0,
            output_tokens_per_s=rate,
        )
        for slot, rate in enumerate(rates)
    ]


def interval(ratio: float, lower: float | None, upper: float | None) -> RatioInterval:
    return RatioInterval(
        metric="ttft_ms_p50",
        pairs=2,
        ratio=ratio,
        lower=lower,
        upper=upper,
        confidence=0.95,
        minimum_detectable_effect=None,
    )


def test_strip_places_a_dot_per_boot_in_the_row_of_its_arm() -> None:
    plot = strip_plot(boots(10.0, 20.0, None, 30.0), "output_tokens_per_s", "Rate", "tokens/s")
    assert plot is not None
    assert [dot.arm for dot in plot.dots] == ["baseline", "candidate", "candidate"]
    assert plot.dots[0].x < plot.dots[1].x < plot.dots[2].x
    middle = (plot.dots[0].x + plot.dots[2].x) / 2
    assert plot.dots[1].x == pytest.approx(middle, abs=0.02)
    assert "boot 1, candidate: 20 tokens/s" in plot.description


def test_strip_without_numbers_is_none() -> None:
    assert strip_plot(boots(None, None), "output_tokens_per_s", "Rate", "tokens/s") is None
    assert strip_plot([], "ttft_ms_p50", "TTFT", "ms") is None


@given(st.lists(RATES, min_size=1, max_size=8))
def test_strip_stays_inside_and_has_few_rising_ticks(rates: list[float]) -> None:
    plot = strip_plot(boots(*rates), "output_tokens_per_s", "Rate", "tokens/s")
    assert plot is not None
    for x in [dot.x for dot in plot.dots] + [tick.x for tick in plot.ticks]:
        assert plot.left - 0.01 <= x <= plot.right + 0.01
    places = [tick.x for tick in plot.ticks]
    assert places == sorted(places)
    assert len(places) <= 7


@given(RATIOS, RATIOS, RATIOS)
def test_ratio_orders_bounds_and_shows_equality(one: float, two: float, three: float) -> None:
    low, ratio, high = sorted((one, two, three))
    plot = ratio_plot([interval(ratio, low, high)])
    assert plot is not None
    (row,) = plot.rows
    assert row.low is not None
    assert row.high is not None
    assert plot.left <= row.low <= row.x <= row.high <= plot.right
    assert plot.left <= plot.one_x <= plot.right
    if not math.isclose(ratio, 1.0, rel_tol=1e-3):
        assert (row.x >= plot.one_x) == (ratio > 1)


def test_ratio_without_interval_is_a_point() -> None:
    plot = ratio_plot([interval(1.25, None, None)])
    assert plot is not None
    assert (plot.rows[0].low, plot.rows[0].high) == (None, None)
    assert "TTFT 1.250, no interval" in plot.description
    assert ratio_plot([]) is None


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.97, 1.04), (0.5, 1.1), (0.8, 2.1), (0.01, 98.0), (0.3, 5.0), (1e-9, 1e9), (0.9, 40.0)],
)
def test_marks_of_ratios_stand_apart(lower: float, upper: float) -> None:
    middle = math.sqrt(lower * upper)
    plot = ratio_plot([interval(middle, lower, upper)])
    assert plot is not None
    places = [tick.x for tick in plot.ticks]
    assert 2 <= len(places) <= 7
    assert min(b - a for a, b in itertools.pairwise(places)) > 20
    assert "1\N{MULTIPLICATION SIGN}" in {tick.text for tick in plot.ticks}

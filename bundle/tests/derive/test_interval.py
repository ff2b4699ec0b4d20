"""Intervals over pairs: against the published table, against scipy, and by hand."""

import math

import numpy as np
import pytest
from scipy import special, stats

from k3bundle.derive.holm import adjusted_p_values
from k3bundle.derive.interval import PairValue, ratio_interval
from k3bundle.derive.noncentral_t import noncentral_t_power
from k3bundle.derive.paired_t import FewPairsError, estimate
from k3bundle.verdict import RatioInterval


def interval_of(ratios: list[float], confidence: float = 0.95) -> RatioInterval:
    pairs = [PairValue(100.0, 100.0 * r) for r in ratios]
    found = ratio_interval("output_tokens_per_s", pairs, confidence=confidence)
    assert found is not None
    return found


def ratios_with_spread(pairs: int, spread: float) -> list[float]:
    """Ratios whose logs have mean 0 and exactly that standard deviation."""
    raw = [i - (pairs - 1) / 2 for i in range(pairs)]
    scale = spread / math.sqrt(math.fsum(x * x for x in raw) / (pairs - 1))
    return [math.exp(x * scale) for x in raw]


# The table of minimum detectable effects that the project publishes: (pairs, spread, effect), %.
@pytest.mark.parametrize(
    ("pairs", "spread_percent", "effect_percent"),
    [
        *(
            (n, 0.5, e)
            for n, e in zip((3, 4, 5, 6, 8, 10), (1.15, 0.82, 0.68, 0.59, 0.49, 0.43), strict=True)
        ),
        *(
            (n, 1.0, e)
            for n, e in zip((3, 4, 5, 6, 8, 10), (2.3, 1.65, 1.36, 1.19, 0.98, 0.85), strict=True)
        ),
        *(
            (n, 2.0, e)
            for n, e in zip((3, 4, 5, 6, 8, 10), (4.6, 3.3, 2.7, 2.4, 2.0, 1.7), strict=True)
        ),
    ],
)
def test_minimum_detectable_effect_agrees_with_the_published_table(
    pairs: int, spread_percent: float, effect_percent: float
) -> None:
    found = interval_of(ratios_with_spread(pairs, spread_percent / 100))
    assert found.minimum_detectable_effect is not None
    # The table gives log points, to two or three digits; the record gives the relative gain.
    log_points = 100 * math.log1p(found.minimum_detectable_effect)
    assert log_points == pytest.approx(effect_percent, rel=0.03)


@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("noncentrality", [0.5, 2.5, 8.0])
def test_power_is_the_exact_noncentral_t(
    degrees: int, confidence: float, noncentrality: float
) -> None:
    critical = float(stats.t.ppf(confidence, degrees))
    exact = float(stats.nct.sf(critical, degrees, noncentrality))
    assert noncentral_t_power(degrees, critical, noncentrality) == pytest.approx(exact, abs=1e-9)


def test_bounds_are_those_of_the_paired_t_interval() -> None:
    ratios = [1.02, 1.05, 0.99, 1.03]
    found = interval_of(ratios)
    logs = [math.log(r) for r in ratios]
    mean, error = math.fsum(logs) / 4, float(stats.sem(logs))
    half_width = float(special.stdtrit(3, 0.95)) * error
    assert found.pairs == 4
    assert found.ratio == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.lower == pytest.approx(math.exp(mean - half_width), rel=1e-9)
    assert found.upper == pytest.approx(math.exp(mean + half_width), rel=1e-9)


def test_one_pair_has_a_ratio_and_no_bounds() -> None:
    found = interval_of([1.5])
    assert found.ratio == pytest.approx(1.5)
    assert (found.lower, found.upper, found.minimum_detectable_effect) == (None, None, None)


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    found = interval_of([1.25, 1.25])
    assert found.lower == found.ratio == found.upper == pytest.approx(1.25)
    assert found.minimum_detectable_effect == 0.0


def test_a_pair_without_a_positive_value_is_left_out() -> None:
    pairs = [PairValue(0.0, 5.0), PairValue(2.0, 4.0)]
    found = ratio_interval("ttft_ms_p50", pairs, confidence=0.95)
    assert found is not None
    assert found.pairs == 1
    assert found.ratio == pytest.approx(2.0)
    assert ratio_interval("ttft_ms_p50", [PairValue(0.0, 0.0)], confidence=0.95) is None


@pytest.mark.parametrize("confidence", [0.5 + 2**-53, 0.500001, 1 - 1e-9, 1 - 2**-53])
# With five pairs, the quantile at a hair above one half rounds to 0.
@pytest.mark.parametrize(
    "ratios",
    [[1e-300, 1e300], [1.0, 1.0 + 1e-15], [1e-300, 1.0, 1e300], [1.0, 1.1, 1.2, 1.3, 1.4]],
)
def test_absurd_records_still_give_a_finite_record(confidence: float, ratios: list[float]) -> None:
    pairs = [PairValue(1.0, r) for r in ratios]
    found = ratio_interval("tpot_ms_p50", pairs, confidence=confidence)
    assert found is not None
    assert found.lower is not None
    assert found.upper is not None
    assert 0 < found.lower <= found.ratio <= found.upper < math.inf


def test_a_steady_drift_is_taken_out_where_the_plan_says_so() -> None:
    # Each boot is 1 % faster than the one before; the candidate gains 3 %.
    values = [
        PairValue(100.0 * 1.01**b, 103.0 * 1.01**c, c - b)
        for b, c in ((0, 1), (3, 2), (4, 5), (7, 6))
    ]
    plain = ratio_interval("output_tokens_per_s", values, confidence=0.95)
    found = ratio_interval("output_tokens_per_s", values, confidence=0.95, drift_adjusted=True)
    assert plain is not None
    assert found is not None
    assert (plain.drift_per_boot, plain.degrees_of_freedom) == (None, 3)
    assert found.ratio == pytest.approx(1.03)
    assert found.drift_per_boot == pytest.approx(0.01)
    assert found.degrees_of_freedom == 2
    assert found.lower == pytest.approx(1.03)
    assert plain.lower is not None
    assert plain.lower < 1.02


def test_least_squares_agrees_with_the_library() -> None:
    logs, orders = [0.02, 0.05, 0.01, 0.04, 0.03], [1, -1, 1, 3, -1]
    found = estimate(np.array(logs), orders)
    fit = stats.linregress(orders, logs)
    assert float(found.mean) == pytest.approx(fit.intercept)
    assert float(found.error) == pytest.approx(fit.intercept_stderr)
    assert found.drift is not None
    assert found.drift_error is not None
    assert float(found.drift) == pytest.approx(fit.slope)
    assert float(found.drift_error) == pytest.approx(fit.stderr)


@pytest.mark.parametrize("orders", [[1, 1, 1, 1], [-2, -2, -2, -2]])
def test_pairs_in_one_order_cannot_tell_a_drift_from_a_ratio(orders: list[int]) -> None:
    found = estimate(np.array([0.01, 0.02, 0.01, 0.02]), orders)
    assert (found.drift, found.degrees) == (None, 3)


def test_one_pair_has_no_estimate() -> None:
    with pytest.raises(FewPairsError, match="found 1"):
        estimate(np.array([0.01]))


def test_slower_p_value_is_that_of_the_t_test() -> None:
    ratios = [0.98, 0.99, 0.97, 1.0]
    exact = stats.ttest_1samp([math.log(r) for r in ratios], 0, alternative="less").pvalue
    assert interval_of(ratios).slower_p_value == pytest.approx(float(exact))
    assert interval_of([1.25, 1.25]).slower_p_value == 1.0
    assert interval_of([0.75, 0.75]).slower_p_value == 0.0


def test_holm_steps_down_and_never_falls() -> None:
    found = adjusted_p_values({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert list(found) == ["d", "a", "c", "b"]
    assert found == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert adjusted_p_values({"a": 0.9, "b": 0.8}) == {"b": 1.0, "a": 1.0}
    assert adjusted_p_values({}) == {}

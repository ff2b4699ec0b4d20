"""How often a verdict on speed is wrong: every row of the committed table, at its full size."""

from pathlib import Path

import pytest

from k3bundle.derive.interval import PairValue, ratio_interval
from k3bundle_testing.error_rates import DRIFTS, PLANS, ROWS, main
from k3bundle_testing.simulated_plans import (
    CONFIDENCE,
    Row,
    false_alarms,
    noisy_null_share,
    orders,
    rates,
    simulated_logs,
)

TABLE = Path(__file__).parents[2] / "ERROR_RATES.md"


def test_the_rows_are_those_that_are_promised() -> None:
    assert PLANS == 2000
    assert {row.pairs for row in ROWS} == set(range(2, 9))
    assert {row.spread for row in ROWS} == {0.005, 0.01, 0.02}
    assert {row.drift for row in ROWS} == {0.0, *DRIFTS}
    assert max(DRIFTS) == 0.005
    assert len(ROWS) == len(set(ROWS)) == 7 * 3 * 4


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_false_pass_and_power_are_as_promised(row: Row) -> None:
    found = rates(row, PLANS)
    assert found.false_pass <= 0.06
    assert 0.77 <= found.power <= 0.83


def test_the_simulation_judges_as_a_verdict_does() -> None:
    row = Row(4, 0.01, 0.005, drift_adjusted=True)
    logs = simulated_logs(row, 50, 0.02, stream=3)
    from_rates = []
    for one in logs:
        values = [
            PairValue(1.0, float(2.718281828459045**log), order)
            for log, order in zip(one, orders(4), strict=True)
        ]
        interval = ratio_interval(
            "output_tokens_per_s", values, confidence=CONFIDENCE, drift_adjusted=True
        )
        assert interval is not None
        assert interval.lower is not None
        from_rates.append(interval.lower > 1)
    assert 5 < sum(from_rates) < 50


def test_many_cells_give_no_more_false_alarms_than_one() -> None:
    row = Row(6, 0.01)
    plain, adjusted = false_alarms(row, 500, 28)
    assert plain > 0.6
    assert adjusted <= 0.08
    assert noisy_null_share(row, 500, 28) <= 0.08


def test_the_committed_table_is_what_is_simulated() -> None:
    assert main([str(TABLE), "--check"]) == 0


def test_a_table_that_is_another_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rates.md").write_text(TABLE.read_text().replace("80.3 %", "80.4 %", 1))
    assert main([str(tmp_path / "rates.md"), "--check"]) == 1
    assert "make error-rates" in capsys.readouterr().err


def test_main_wants_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage:")

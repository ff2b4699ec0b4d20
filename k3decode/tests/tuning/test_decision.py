"""Which candidate a table names: faster for sure, slower nowhere."""

from typing import Any

import pytest

from k3decode.tuning.decision import MeasurementError, decided, merged
from k3decode.tuning.measurement import measurement_id
from k3decode.tuning.table import TunedRow

Interval = tuple[float, float, float]
RULE: dict[str, Interval] = {"rule": (1.0, 1.0, 1.0)}


def _line(others: dict[str, Interval], **changes: Any) -> dict[str, Any]:
    said = {
        "gpu": "NVIDIA Test 9",
        "commit": "abc",
        "op": "mla_combine",
        "case": "tp8_1k_m17",
        "shape": "parts_to_values_12_heads",
        "rows": 17,
        "ranks": [8],
        "rule": "rule",
        "candidates": {
            name: {"us": 10 / mean, "ratio": mean, "ratio_low": low, "ratio_high": high}
            for name, (low, mean, high) in {**RULE, **others}.items()
        },
        **changes,
    }
    return {**said, "id": measurement_id(said)}


def _choice(*lines: dict[str, Any]) -> str:
    (row,) = decided(lines)
    return row.choice


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.05, 1.10, 1.15), "other"),
        ((0.99, 1.10, 1.20), "rule"),
        ((1.001, 1.005, 1.009), "rule"),
        ((0.80, 0.90, 0.95), "rule"),
    ],
)
def test_a_candidate_is_taken_where_it_is_faster_for_sure(
    interval: Interval, expected: str
) -> None:
    assert _choice(_line({"other": interval})) == expected


def test_the_fastest_of_several_is_taken() -> None:
    assert _choice(_line({"a": (1.05, 1.1, 1.2), "b": (1.1, 1.2, 1.3), "c": (1, 1.02, 1.1)})) == "b"


def test_a_candidate_that_is_slower_in_one_case_is_not_taken() -> None:
    fast, level, slow = (1.2, 1.3, 1.4), (0.98, 1.0, 1.02), (0.90, 0.95, 0.99)
    far = {"case": "tp8_32k_m17"}
    assert _choice(_line({"other": fast}), _line({"other": level}, **far)) == "other"
    assert _choice(_line({"other": fast}), _line({"other": slow}, **far)) == "rule"
    assert _choice(_line({"other": fast}), _line({}, **far)) == "rule"


def test_a_row_names_cases_and_measurements() -> None:
    lines = [_line({"other": (1.2, 1.25, 1.3)}), _line({"other": (1.2, 1.25, 1.3)}, case="b")]
    (row,) = decided(lines)
    assert row.measurements == (lines[0]["id"], lines[1]["id"])
    assert row.latency_us == {"tp8_1k_m17": 8.0, "b": 8.0}
    assert row.rule_us == {"tp8_1k_m17": 10.0, "b": 10.0}
    assert (row.rule, row.ranks, row.rows) == ("rule", (8,), 17)


def test_a_launch_whose_rule_was_wrong_has_no_row() -> None:
    assert decided([_line({}, candidates={})]) == []


def test_lines_that_do_not_belong_together_are_refused() -> None:
    line = _line({})
    with pytest.raises(MeasurementError, match="changed: measure again"):
        decided([{**line, "rows": 18}])
    for change in ({"commit": "other"}, {"rule": "other"}, {}):
        other = _line({"other": (1.0, 1.0, 1.0)}, **{"case": "b", **change} if change else {})
        with pytest.raises(MeasurementError, match="expected each case once, at one commit"):
            decided([line, other])


def _row(rows: int, shape: str = "s", choice: str = "old") -> TunedRow:
    return TunedRow("g", "o", shape, (), rows, choice, "rule", {"c": 1.0}, {"c": 1.0}, ("id",))


def test_new_rows_replace_all_of_their_launch() -> None:
    old = [_row(1), _row(8), _row(1, shape="other")]
    new = [_row(8, choice="new")]
    assert merged(old, new) == [old[2], new[0]]

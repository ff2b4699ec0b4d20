"""Candidates take turns, are compared round by round, and a line is named by what it says."""

import statistics
from collections.abc import Callable
from functools import partial

import pytest

from k3decode.tuning.measurement import compared, measurement_id, take_turns


def test_candidates_take_turns_and_the_order_turns_around() -> None:
    ran: list[str] = []
    durations = {"a": 2.0, "b": 1.0}

    def time_us(replay: Callable[[], None]) -> float:
        replay()
        return durations[ran[-1]]

    replay_of = {name: partial(ran.append, name) for name in durations}
    found = take_turns(replay_of, rounds=4, replays=2, time_us=time_us)
    assert found == {"a": [2.0] * 4, "b": [1.0] * 4}
    turns = [one for i, one in enumerate(ran) if i == 0 or ran[i - 1] != one]
    # b ends one round and begins the next, so two turns of it look like one.
    assert turns == ["a", "b", "a", "b", "a"]
    assert ran.count("a") == ran.count("b") == 4 * (3 + 2)


def test_a_machine_that_slows_down_changes_no_ratio() -> None:
    slow = [1.0, 1.5, 2.0, 3.0]
    found = compared({"rule": [12 * s for s in slow], "other": [10 * s for s in slow]}, "rule")
    assert found["rule"] == {
        "us": 12 * statistics.median(slow),
        "ratio": 1.0,
        "ratio_low": 1.0,
        "ratio_high": 1.0,
    }
    assert found["other"]["ratio"] == pytest.approx(1.2)
    assert found["other"]["ratio_high"] - found["other"]["ratio_low"] < 1e-3


def test_a_line_is_named_by_what_it_says_in_any_order() -> None:
    said = {"op": "projection", "rows": 8, "candidates": {"a": {"us": 1.5}}}
    name = measurement_id(said)
    assert len(name) == 12
    assert measurement_id({**dict(reversed(said.items())), "id": "x"}) == name
    assert measurement_id({**said, "rows": 9}) != name

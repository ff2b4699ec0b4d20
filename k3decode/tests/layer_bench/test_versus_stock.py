"""Turns, ratios, the conversation with a child, and the model that another engine is given."""

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims
from k3decode.layer_bench.conversation import Child, ChildError
from k3decode.layer_bench.experts_alone import expert_bytes
from k3decode.layer_bench.ratio import Rounds, ratio_of_rounds
from k3decode.layer_bench.stock_model import stock_config, write_stock_model
from k3decode.layer_bench.versus_stock import take_rounds

RANK = shard_dims(K3Dims(), 8)
ECHO = """
import sys
from k3decode.layer_bench.conversation import Answers
answers = Answers()
print("noise")
for question in answers.questions():
    if question["do"] == "end":
        sys.exit(3)
    if question["do"] == "fail":
        answers.say(error="expected mercy, found none")
    if question["do"] == "echo":
        answers.say(**question)
"""


class _Scripted:
    """A side whose replays take times from a list, and which writes down when it ran."""

    def __init__(self, name: str, times: list[float], order: list[str]) -> None:
        self._name, self._times, self._order = name, times, order

    def prepare(self, rows: int) -> dict[str, Any]:
        return {"rows": rows}

    def times(self, *, warm_up: int, replays: int) -> list[float]:
        assert warm_up > 0
        self._order.append(self._name)
        return [self._times.pop(0) for _ in range(replays)]

    def release(self) -> None:
        pass


def test_the_order_turns_around_and_each_round_has_a_median() -> None:
    order: list[str] = []
    sides = {name: _Scripted(name, list(map(float, range(9))), order) for name in "ab"}
    found = take_rounds(sides, rounds=3, replays=3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1.0, 4.0, 7.0], "b": [1.0, 4.0, 7.0]}


def test_a_layer_is_the_difference_of_depths_in_each_round() -> None:
    rounds = Rounds(deep=(210.0, 220.0), shallow=(90.0, 88.0))
    assert rounds.per_layer(12) == (10.0, 11.0)


def test_the_ratio_has_students_interval_of_its_logarithms() -> None:
    """Three rounds: 4.303 times the standard error, from a printed table."""
    other, this = [12.0, 13.0, 14.5], [10.0, 10.0, 10.0]
    logs = [math.log(one / 10.0) for one in other]
    half = 4.303 * statistics.stdev(logs) / math.sqrt(3)
    found = ratio_of_rounds(other, this)
    assert found.mean == pytest.approx(math.prod(other) ** (1 / 3) / 10.0)
    assert math.log(found.mean / found.low) == pytest.approx(half)
    assert math.log(found.high / found.mean) == pytest.approx(half)


@pytest.mark.parametrize(
    ("other", "words"),
    [([1.0, 1.0], "3 to 31 rounds, found 2"), ([1.0, -1.0, 1.0], "positive times, found -1.0")],
)
def test_rounds_that_say_nothing_are_refused(other: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ratio_of_rounds(other, [1.0] * len(other))


def test_a_child_answers_past_its_own_noise(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child([sys.executable, "-c", ECHO], environment={}, log=log)
    try:
        child.ask(do="echo", rows=3)
        assert child.answer(30.0) == {"do": "echo", "rows": 3}
        child.ask(do="fail")
        with pytest.raises(ChildError, match="expected mercy, found none"):
            child.answer(30.0)
        with pytest.raises(ChildError, match="expected an answer within 0 s"):
            child.answer(0.1)
        child.ask(do="end")
        with pytest.raises(ChildError, match="the process ended with 3"):
            child.answer(30.0)
    finally:
        child.close()
    assert log.read_text() == "noise\n"


def test_the_model_of_another_engine_has_a_ranks_widths(tmp_path: Path) -> None:
    write_stock_model(tmp_path, RANK, layers=9, longest=512)
    found = json.loads((tmp_path / "config.json").read_text())
    assert found == stock_config(RANK, layers=9, longest=512)
    assert (found["num_attention_heads"], found["moe_intermediate_size"]) == (12, 384)
    assert (found["intermediate_size"], found["vocab_size"]) == (4224, 20480)
    assert (found["num_experts"], found["num_shared_experts"]) == (896, 2)
    layers = found["linear_attn_config"]
    assert layers["full_attn_layers"] == [4, 8]
    assert sorted(layers["kda_layers"] + layers["full_attn_layers"]) == list(range(1, 10))


def test_layers_are_mla_where_ours_are() -> None:
    mla = stock_config(RANK, layers=21, longest=512)["linear_attn_config"]["full_attn_layers"]
    assert [number for number in range(21) if RANK.is_mla(number)] == [one - 1 for one in mla]


def test_an_expert_of_a_rank_of_eight_has_two_megabytes() -> None:
    assert expert_bytes(RANK) == 3 * 3584 * 384 * 17 // 32

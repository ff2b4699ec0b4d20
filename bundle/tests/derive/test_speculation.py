from typing import Literal

import pytest

from k3bundle.coverage import EngineCounters
from k3bundle.derive.restart import START_TIME, restart_problem
from k3bundle.derive.selection import Bracket
from k3bundle.derive.speculation import ACCEPTED, DRAFT_TOKENS, DRAFTS, read_speculation


def bracket(
    before: dict[str, float] | None, after: dict[str, float] | None
) -> Bracket[EngineCounters]:
    return Bracket(_snapshot("before", before), _snapshot("after", after))


def _snapshot(
    moment: Literal["before", "after"], counters: dict[str, float] | None
) -> EngineCounters | None:
    if counters is None:
        return None
    return EngineCounters(boot_id="boot-0.0", cell_id="c", moment=moment, counters=counters)


def counts(drafts: float, tokens: float, accepted: float) -> dict[str, float]:
    return {DRAFTS: drafts, DRAFT_TOKENS: tokens, ACCEPTED: accepted}


def test_length_and_rate_come_from_the_growth_of_counters() -> None:
    found = read_speculation(bracket(counts(100, 700, 300), counts(300, 2100, 900)), 7)
    assert found.drafts == 200
    assert found.mean_acceptance_length == 4.0
    assert found.acceptance_rate == pytest.approx(600 / 1400)
    assert found.problem is None


def test_counters_that_begin_in_the_cell_count_from_0() -> None:
    found = read_speculation(bracket({}, counts(10, 70, 30)), 7)
    assert found.mean_acceptance_length == 4.0


def test_b9_counter_that_went_backwards_is_a_problem_and_no_negative_length() -> None:
    found = read_speculation(bracket(counts(100, 700, 300), counts(20, 140, 60)), 7)
    assert found.mean_acceptance_length is None
    assert found.problem == f"the counter {DRAFTS} went backwards during the cell"


def test_b10_no_draft_is_no_length_and_says_that_speculation_did_not_run() -> None:
    same = counts(100, 700, 300)
    found = read_speculation(bracket(same, same), 7)
    assert found.mean_acceptance_length is None
    assert found.problem == "speculation was planned and did not run: no draft was verified"
    assert read_speculation(bracket(same, same), 0).problem is None


def test_b10_engine_that_counts_no_drafts_is_a_problem_where_some_are_planned() -> None:
    assert read_speculation(bracket({}, {}), 7).problem is not None
    assert read_speculation(bracket({}, {}), 0).problem is None
    assert read_speculation(bracket(None, None), 7).problem is not None


def test_b26_length_of_exactly_1_means_that_drafts_are_useless() -> None:
    found = read_speculation(bracket(counts(0, 0, 0), counts(50, 350, 0)), 7)
    assert found.mean_acceptance_length == 1.0
    assert found.problem == "none of 350 draft tokens was accepted: the drafts are useless"


def test_more_accepted_than_proposed_is_a_problem() -> None:
    found = read_speculation(bracket(counts(0, 0, 0), counts(50, 350, 351)), 7)
    assert found.mean_acceptance_length is None
    assert found.problem is not None


def test_b9_restart_shows_in_the_start_time_or_in_any_counter() -> None:
    steady = {START_TIME: 1000.0, "vllm:generation_tokens_total": 5.0}
    assert restart_problem(bracket(steady, {**steady, "vllm:generation_tokens_total": 9.0})) is None
    found = restart_problem(bracket(steady, {**steady, START_TIME: 1060.5}))
    assert found == "the engine process after the cell is not the one before it"
    found = restart_problem(bracket(steady, {**steady, "vllm:generation_tokens_total": 4.0}))
    assert found == "the counter vllm:generation_tokens_total went backwards during the cell"


def test_restart_cannot_be_seen_without_both_snapshots() -> None:
    assert restart_problem(bracket(None, {START_TIME: 1.0})) is None
    assert restart_problem(bracket({START_TIME: 1.0}, None)) is None

"""Greedy outputs compared token by token, and the rule of a greedy cell."""

from collections.abc import Iterable

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.derive.greedy import compare, unusable
from k3bundle.request import RequestRecord
from k3bundle.verdict import CellInvalid, CellPass, CellResult, GreedyEvidence

from .changes import (
    change_requests,
    fail,
    update,
    with_config,
)
from .records import (
    CELLS,
    GATES,
    GREEDY,
    a_plan,
    a_request,
    a_run,
    boot_slots,
    completed,
    logprobs,
)

CANDIDATES = (1, 2)


def answer(
    tokens: Iterable[int], *, gap: float | None = 0.5, logprob: float = -0.25
) -> RequestRecord:
    ids = tuple(tokens)
    return a_request(
        cell_id="greedy",
        token_ids=ids,
        outcome=completed(len(ids)),
        requested_tokens=len(ids),
        logprobs=logprobs(ids, gap=gap, logprob=logprob),
    )


def greedy_cell(records: RunRecords) -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == GREEDY.cell_id)


def diverging(position: int, *, gap: float) -> RunRecords:
    """A run whose candidate picks another token there, where the baseline has that gap."""
    tokens = list(range(8))
    entries = logprobs(tokens)
    level = entries[position].model_copy(update={"runner_up_logprob": -0.25 - gap})
    entries = (*entries[:position], level, *entries[position + 1 :])
    other = [*tokens[:position], 99, *range(100, 107 - position)]
    records = change_requests(a_run(), update(logprobs=entries), cell="greedy")
    return change_requests(
        records,
        update(token_ids=tuple(other), logprobs=logprobs(other)),
        cell="greedy",
        slots=CANDIDATES,
    )


def test_compare_equal_answers() -> None:
    found = compare(answer(range(8)), answer(range(8)), GATES)
    assert (found.outcome, found.position) == ("identical", None)
    assert (found.positions, found.decided) == (8, 8)


@pytest.mark.parametrize(
    ("gap", "outcome"),
    [(0.0, "tie"), (0.02, "tie"), (0.0201, "difference"), (None, "difference"), (-1.0, "tie")],
)
def test_compare_the_first_difference_by_the_gap_there(gap: float | None, outcome: str) -> None:
    # A margin of 0.02; a gap that nobody reported excuses nothing.
    first = answer([1, 2, 3, 4], gap=gap, logprob=-1.0 if gap == -1.0 else 0.0)
    found = compare(first, answer([1, 2, 9, 4]), GATES)
    assert (found.outcome, found.position, found.positions) == (outcome, 2, 3)


def test_compare_positions_after_the_first_difference_do_not_count() -> None:
    second = answer([1, 9, 3, 4], logprob=-7.0)
    found = compare(answer([1, 2, 3, 4], gap=0.0), second, GATES)
    assert found.largest_logprob_difference_nats == 6.75
    assert (found.positions, found.decided) == (2, 0)
    early = compare(answer([1, 2], gap=0.0), answer([9, 2], logprob=-7.0), GATES)
    assert early.largest_logprob_difference_nats == 0.0


@pytest.mark.parametrize(("first", "second"), [(8, 5), (5, 8)])
def test_compare_an_answer_that_stops_early_is_a_difference_even_at_a_tie(
    first: int, second: int
) -> None:
    found = compare(answer(range(first), gap=0.0), answer(range(second)), GATES)
    assert (found.outcome, found.position) == ("difference", 5)


def test_compare_reads_tokens_from_logprobs_where_there_are_no_ids() -> None:
    bare = answer(range(4)).model_copy(update={"token_ids": None})
    assert compare(bare, answer(range(4)), GATES).outcome == "identical"


def test_unusable_names_what_is_wrong() -> None:
    good = answer(range(4))
    assert unusable(good) is None
    assert unusable(fail(good)) == "failed (http_status)"
    assert "no token ids" in str(unusable(good.model_copy(update={"token_ids": ()})))
    assert "4 token ids for 9" in str(unusable(good.model_copy(update={"outcome": completed(9)})))
    assert "temperature 1" in str(unusable(good.model_copy(update={"temperature": 1.0})))
    other = good.model_copy(update={"logprobs": logprobs([0, 1, 2, 9])})
    assert "other tokens than it chose" in str(unusable(other))
    longer = good.model_copy(update={"logprobs": logprobs(range(6))})
    assert "6 log-probabilities for 4 tokens" in str(unusable(longer))


def test_equal_answers_pass() -> None:
    cell = greedy_cell(a_run())
    assert isinstance(cell, CellPass)
    assert cell.evidence == GreedyEvidence(
        compared_requests=6,
        compared_positions=48,
        decided_share=1.0,
        identical_requests=6,
        ties=0,
        differences=0,
        largest_logprob_difference_nats=0.0,
        baseline_self_differences=0,
    )
    assert "same tokens on 6 of 6 compared requests" in cell.reason


def test_answers_that_part_at_level_scores_pass_with_a_note() -> None:
    cell = greedy_cell(diverging(4, gap=0.0))
    assert isinstance(cell, CellPass)
    assert isinstance(cell.evidence, GreedyEvidence)
    assert (cell.evidence.ties, cell.evidence.differences) == (6, 0)
    assert cell.evidence.decided_share == 0.8
    assert "part at a tie of the baseline on the other 6" in cell.reason


def test_answers_that_part_at_a_decided_position_fail() -> None:
    cell = greedy_cell(diverging(4, gap=0.5))
    assert cell.status == "FAIL"
    assert "other tokens on 6 of 6" in cell.reason
    assert "prompt 0 in boot 1, at position 4" in cell.reason


@pytest.mark.parametrize(("logprob", "status"), [(-0.259, "PASS"), (-0.27, "FAIL")])
def test_logprobs_must_agree_within_the_tolerance(logprob: float, status: str) -> None:
    shifted = update(logprobs=logprobs(range(8), logprob=logprob))
    cell = greedy_cell(change_requests(a_run(), shifted, cell="greedy", slots=[2], index=1))
    assert cell.status == status
    if status == "FAIL":
        assert "differ by up to 0.02 nats" in cell.reason


def test_logprobs_that_only_the_candidate_leaves_out_fail() -> None:
    silent = update(logprobs=None)
    cell = greedy_cell(change_requests(a_run(), silent, cell="greedy", slots=[1], index=2))
    assert cell.status == "FAIL"
    assert "no log-probabilities for prompt 2 in boot 1" in cell.reason


def test_logprobs_that_nobody_gives_leave_the_cell_undecided() -> None:
    cell = greedy_cell(change_requests(a_run(), update(logprobs=None), cell="greedy"))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "undecided"


@pytest.mark.parametrize(("gap", "status"), [(0.03, "PASS"), (0.01, "INVALID"), (None, "INVALID")])
def test_equal_tokens_mean_nothing_where_every_choice_is_a_tie(
    gap: float | None, status: str
) -> None:
    level = update(logprobs=logprobs(range(8), gap=gap))
    cell = greedy_cell(change_requests(a_run(), level, cell="greedy"))
    assert cell.status == status
    if isinstance(cell, CellInvalid):
        assert cell.cause == "undecided"


def test_a_baseline_that_differs_from_itself_is_unstable() -> None:
    other = (*range(7), 99)
    changed = update(token_ids=other, logprobs=logprobs(other))
    cell = greedy_cell(change_requests(a_run(), changed, cell="greedy", slots=[3], index=0))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "baseline_unstable"
    assert isinstance(cell.evidence, GreedyEvidence)
    assert cell.evidence.baseline_self_differences == 1


def test_a_baseline_that_fails_a_request_cannot_be_compared_with() -> None:
    cell = greedy_cell(change_requests(a_run(), fail, cell="greedy", slots=[0], index=1))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "failed_requests"
    assert "Prompt 1 in boot 0 (baseline) failed (http_status)" in cell.reason


def test_a_short_baseline_answer_is_of_the_wrong_length() -> None:
    short = update(token_ids=(0, 1), logprobs=logprobs([0, 1]), outcome=completed(2))
    cell = greedy_cell(change_requests(a_run(), short, cell="greedy", slots=[0], index=1))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "wrong_length"


def test_a_candidate_that_fails_a_request_falls_short() -> None:
    cell = greedy_cell(change_requests(a_run(), fail, cell="greedy", slots=[2], index=1))
    assert cell.status == "FAIL"
    assert "did not answer 1 requests" in cell.reason
    assert "prompt 1 in boot 2" in cell.reason


@pytest.mark.parametrize("method", ["synthetic", "fly"])
def test_tokens_that_were_accepted_unchecked_are_not_answers(method: str) -> None:
    config = {"speculative_config": f"SpeculativeConfig(rejection_sample_method='{method}')"}
    cell = greedy_cell(with_config(a_run(), 1, config))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "synthetic_acceptance"
    assert f"boot-1.0 ran with rejection_sample_method {method}" in cell.reason


def test_a_plan_that_asks_for_synthetic_acceptance_has_no_answers() -> None:
    plan = a_plan()
    arguments = ("--speculative-config", '{"rejection_sample_method":"synthetic"}')
    arms = (plan.arms[0], plan.arms[1].model_copy(update={"engine_arguments": arguments}))
    cell = greedy_cell(a_run(plan.model_copy(update={"arms": arms})))
    assert isinstance(cell, CellInvalid)
    assert "The candidate arm of the plan asks for" in cell.reason


def test_ordinary_rejection_sampling_is_no_obstacle() -> None:
    config = {"model.dtype": "float32", "speculative_config.rejection_sample_method": "standard"}
    records = a_run()
    for slot in range(4):
        records = with_config(records, slot, config)
    assert greedy_cell(records).status == "PASS"


def test_a_plan_without_a_pair_has_nothing_to_compare() -> None:
    plan = a_plan(CELLS, boots=boot_slots(("candidate",)), pairing="single")
    cell = greedy_cell(a_run(plan))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "missing_boots"

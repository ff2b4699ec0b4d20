import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3decode.decode.batches import NOT_PREPARED, Batch, PreparedStep, plan_prepared
from k3decode.decode.facts import PreparedScope, StepFacts
from k3decode.decode.plan import Fallback

SCOPE = PreparedScope(
    max_decode_rows=64, max_draft_tokens=7, max_prompt_rows=0, uniform_verify_only=True
)
BATCHES = (
    Batch(tokens=1, requests=64),
    Batch(tokens=1, requests=4),
    Batch(tokens=1, requests=1),
    Batch(tokens=4, requests=8),
    Batch(tokens=4, requests=2),
)


@pytest.mark.parametrize(
    ("facts", "batch", "live"),
    [
        (StepFacts(decode_requests=1), Batch(1, 1), 1),
        (StepFacts(decode_requests=2), Batch(1, 4), 2),
        (StepFacts(decode_requests=5), Batch(1, 64), 5),
        (StepFacts(verify_requests=2, verify_rows=8, longest_draft=3), Batch(4, 2), 2),
        (StepFacts(verify_requests=3, verify_rows=12, longest_draft=3), Batch(4, 8), 3),
    ],
)
def test_the_smallest_graph_that_holds_a_step_serves_it(
    facts: StepFacts, batch: Batch, live: int
) -> None:
    assert plan_prepared(facts, SCOPE, BATCHES) == PreparedStep(batch, live)


@pytest.mark.parametrize(
    "facts",
    [
        StepFacts(verify_requests=9, verify_rows=36, longest_draft=3),
        StepFacts(verify_requests=1, verify_rows=2, longest_draft=1),
        StepFacts(verify_requests=1, verify_rows=4, longest_draft=3, decode_requests=1),
    ],
)
def test_a_step_without_a_graph_falls_back_with_a_reason(facts: StepFacts) -> None:
    assert plan_prepared(facts, SCOPE, BATCHES) == Fallback(NOT_PREPARED)


def test_the_reasons_of_the_plan_come_first() -> None:
    facts = StepFacts(prompt_requests=1, prompt_rows=3)
    expected = Fallback("the step holds prompt tokens and the path serves none")
    assert plan_prepared(facts, SCOPE, BATCHES) == expected


@given(st.integers(1, 64))
def test_a_graph_never_has_fewer_rows_than_the_step(requests: int) -> None:
    step = plan_prepared(StepFacts(decode_requests=requests), SCOPE, BATCHES)
    assert isinstance(step, PreparedStep)
    assert step.batch.rows >= requests
    smaller = [b for b in BATCHES if b.tokens == 1 and requests <= b.requests < step.batch.requests]
    assert not smaller


def test_a_batch_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one request with one token, found 0 with 1"):
        Batch(tokens=1, requests=0)

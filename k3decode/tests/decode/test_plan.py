import ast
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3decode.decode import plan as plan_module
from k3decode.decode.facts import PreparedScope, StepFacts
from k3decode.decode.plan import FALLBACKS, Fallback, Step, plan

SCOPE = PreparedScope(
    max_decode_rows=8, max_draft_tokens=3, max_prompt_rows=10, uniform_verify_only=True
)
DECODE_ONLY = dataclasses.replace(SCOPE, max_prompt_rows=0)

# One step per row of the table, in the table's order, that only this row turns down.
TURNED_DOWN = (
    (StepFacts(), SCOPE),
    (StepFacts(prompt_requests=1, prompt_rows=1), DECODE_ONLY),
    (StepFacts(prompt_requests=1, prompt_rows=11), SCOPE),
    (StepFacts(decode_requests=9), SCOPE),
    (StepFacts(verify_requests=1, verify_rows=5, longest_draft=4), SCOPE),
    (StepFacts(verify_requests=2, verify_rows=5, longest_draft=2, uniform_verify=False), SCOPE),
)


def test_every_row_of_the_table_has_its_step() -> None:
    assert len(TURNED_DOWN) == len(FALLBACKS)


@pytest.mark.parametrize("row", range(len(TURNED_DOWN)))
def test_each_condition_falls_back_with_its_own_reason(row: int) -> None:
    facts, scope = TURNED_DOWN[row]
    assert plan(facts, scope) == Fallback(FALLBACKS[row][1])


def test_reasons_differ_and_fit_a_report() -> None:
    reasons = [reason for _, reason in FALLBACKS]
    assert len(set(reasons)) == len(reasons)
    assert all(0 < len(reason) <= 200 for reason in reasons)


@pytest.mark.parametrize(
    "facts",
    [
        StepFacts(decode_requests=8),
        StepFacts(verify_requests=2, verify_rows=8, longest_draft=3),
        StepFacts(prompt_requests=1, prompt_rows=10),
        StepFacts(prompt_requests=2, prompt_rows=10, decode_requests=8),
    ],
)
def test_steps_at_the_edge_of_the_scope_are_served(facts: StepFacts) -> None:
    assert plan(facts, SCOPE) == Step()


def test_row_limit_counts_draft_rows() -> None:
    facts = StepFacts(verify_requests=3, verify_rows=9, longest_draft=2)
    assert plan(facts, SCOPE) == Fallback("the step holds more decode rows than were prepared")


def test_drafts_of_different_length_are_served_where_the_scope_allows() -> None:
    facts, _ = TURNED_DOWN[5]
    assert plan(facts, dataclasses.replace(SCOPE, uniform_verify_only=False)) == Step()


@st.composite
def any_facts(draw: st.DrawFn) -> StepFacts:
    drafts = draw(st.lists(st.integers(1, 9), max_size=12))
    prompts = draw(st.lists(st.integers(1, 600), max_size=4))
    return StepFacts(
        decode_requests=draw(st.integers(0, 80)),
        verify_requests=len(drafts),
        verify_rows=sum(drafts) + len(drafts),
        longest_draft=max(drafts, default=0),
        uniform_verify=len(set(drafts)) <= 1,
        prompt_requests=len(prompts),
        prompt_rows=sum(prompts),
    )


any_scope = st.builds(
    PreparedScope,
    max_decode_rows=st.integers(0, 100),
    max_draft_tokens=st.integers(0, 8),
    max_prompt_rows=st.integers(0, 700),
    uniform_verify_only=st.booleans(),
)


@given(facts=any_facts(), scope=any_scope)
def test_plan_answers_every_step_and_always_alike(facts: StepFacts, scope: PreparedScope) -> None:
    first = plan(facts, scope)
    twin = plan(dataclasses.replace(facts), dataclasses.replace(scope))
    assert first == twin
    holding = [reason for applies, reason in FALLBACKS if applies(facts, scope)]
    assert first == (Fallback(holding[0]) if holding else Step())


@given(facts=any_facts(), scope=any_scope)
def test_a_served_step_is_inside_the_scope(facts: StepFacts, scope: PreparedScope) -> None:
    if plan(facts, scope) == Step():
        assert facts.num_tokens > 0
        assert facts.decode_rows <= scope.max_decode_rows
        assert facts.prompt_rows <= scope.max_prompt_rows
        assert facts.longest_draft <= scope.max_draft_tokens


def test_the_decision_can_look_at_nothing_but_its_arguments() -> None:
    folder = Path(plan_module.__file__).parent
    imported = set()
    for module in ("batches", "coverage", "eligibility", "facts", "plan"):
        path = folder / f"{module}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    allowed = {"collections", "collections.abc", "dataclasses", "json", "typing"}
    assert {name for name in imported if not name.startswith("k3decode.decode")} <= allowed

import dataclasses

import pytest

from k3decode.decode.eligibility import MODEL_RULES, StartupFacts, candidate_rules, refusals
from k3decode.decode.facts import PreparedScope

SCOPE = PreparedScope(
    max_decode_rows=8, max_draft_tokens=3, max_prompt_rows=10, uniform_verify_only=False
)
GOOD = StartupFacts(
    device="cpu",
    weight_type="float32",
    cache_type="auto",
    tensor_parallel=1,
    pipeline_parallel=1,
    decode_context_parallel=1,
    lora=False,
    graph_replay=False,
    second_runner=False,
    prefix_caching=False,
    draft_tokens=3,
)
# One change per row of the model's table, in its order.
WRONG: tuple[dict[str, object], ...] = (
    {"device": "cuda"},
    {"weight_type": "bfloat16"},
    {"cache_type": "fp8"},
    {"tensor_parallel": 8},
    {"pipeline_parallel": 2},
    {"decode_context_parallel": 2},
    {"lora": True},
    {"graph_replay": True},
    {"second_runner": True},
    {"prefix_caching": True},
)


def changed(change: dict[str, object]) -> StartupFacts:
    return dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [None, SCOPE])
def test_a_right_deployment_is_not_refused(scope: PreparedScope | None) -> None:
    assert refusals(GOOD, scope) == ()


def test_every_rule_has_its_deployment() -> None:
    assert len(WRONG) == len(MODEL_RULES)


@pytest.mark.parametrize("row", range(len(WRONG)))
@pytest.mark.parametrize("scope", [None, SCOPE])
def test_each_rule_refuses_with_its_own_reason(row: int, scope: PreparedScope | None) -> None:
    assert refusals(changed(WRONG[row]), scope) == (MODEL_RULES[row][1],)


def test_prefix_caching_without_speculation_is_served() -> None:
    assert refusals(changed({"prefix_caching": True, "draft_tokens": 0}), SCOPE) == ()


def test_too_many_drafts_refuse_the_candidate_only() -> None:
    facts = changed({"draft_tokens": 4})
    assert refusals(facts, None) == ()
    assert refusals(facts, SCOPE) == (candidate_rules(SCOPE)[0][1],)


def test_all_reasons_are_given_at_once() -> None:
    facts = changed({"lora": True, "tensor_parallel": 2, "draft_tokens": 9})
    assert len(refusals(facts, SCOPE)) == 3

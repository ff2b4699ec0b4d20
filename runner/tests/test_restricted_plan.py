"""Plans of some deployments only, greedy prompts in scope, and sweeps that could run nowhere."""

from importlib import resources

import pytest

from k3bundle.canonical import plan_sha256
from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import GreedyCell, SkippedCell
from k3bundle.plan_rules import plan_findings
from k3runner.commands.plan_table import plan_table
from k3runner.errors import UsageError
from k3runner.greedy_scope import within_scope
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.plan_cost import plan_cost
from k3runner.subjects import load_subject
from k3runner.subjects.scope import Scope
from k3runner.tiers import load_tier
from k3runner.tiers.loading import parse_tier


@pytest.fixture(scope="module")
def node() -> NodeFacts:
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability="10.3")
    return read_node_facts().model_copy(update={"gpus": (gpu,) * 8, "cpu_count": 144})


def test_restricted_plan_holds_cells_and_boots_of_that_deployment_alone(node: NodeFacts) -> None:
    tier, subject = load_tier("standard"), load_subject("kimi-k3-upstream")
    plan = build_plan(tier, subject, node, "paired", only=("tp8",))
    assert plan.only_deployments == ("tp8",)
    assert {cell.deployment for cell in plan.cells} == {"tp8"}
    assert {boot.deployment for boot in plan.boots} == {"tp8"}
    # Nothing is left that this machine cannot run, so the cells can all pass.
    assert not any(isinstance(cell, SkippedCell) for cell in plan.cells)
    assert list(plan_findings(plan)) == []
    assert plan_sha256(plan) != plan_sha256(build_plan(tier, subject, node, "paired"))
    declared = [one.name for one in plan.scope.deployments]
    assert declared == ["tp8", "tp8-k3", "tp8-k7", "tp8-dcp8", "tp16"]


def test_restriction_follows_the_order_of_the_subject_and_is_printed(node: NodeFacts) -> None:
    subject = load_subject("kimi-k3-upstream")
    plan = build_plan(load_tier("standard"), subject, node, "paired", only=("tp8-k7", "tp8"))
    assert plan.only_deployments == ("tp8", "tp8-k7")
    text = plan_table(plan, plan_cost(plan, subject.guess))
    assert text.splitlines()[0].endswith("restricted to tp8, tp8-k7: every verdict says so")


def test_restriction_to_what_the_subject_does_not_have_names_what_it_has(node: NodeFacts) -> None:
    tier, subject = load_tier("quick"), load_subject("kimi-k3-upstream")
    with pytest.raises(UsageError, match="no deployment `tp9`; it has tp8, tp8-k3"):
        build_plan(tier, subject, node, "paired", only=("tp8", "tp9"))
    with pytest.raises(UsageError, match="Leave out --deployment, or --engine-url"):
        build_plan(tier, subject, node, "single", only=("tp8",))


def test_quick_of_the_small_model_compares_answers_that_fit_its_context(node: NodeFacts) -> None:
    plan = build_plan(load_tier("quick"), load_subject("k3-tiny"), node, "paired")
    greedy = {cell.cell_id: cell for cell in plan.cells if isinstance(cell, GreedyCell)}
    assert sorted(greedy) == ["greedy-c1", "greedy-c8"]
    assert max(max(cell.prompt_tokens) for cell in greedy.values()) == 1024
    said = [limit for limit in plan.limits if "leaves out" in limit]
    assert said == [
        "greedy-c1 leaves out 2 prompts of more than 1024 tokens, which the subject does not "
        "claim.",
        "greedy-c8 leaves out 4 prompts of more than 1024 tokens, which the subject does not "
        "claim.",
    ]


def test_greedy_cell_with_no_prompt_in_scope_stays_as_it_is() -> None:
    cell = GreedyCell(cell_id="long", concurrency=1, prompt_tokens=(50, 60), output_tokens=4)
    assert within_scope(cell, Scope(maximum_prompt_tokens=40)) is cell
    assert within_scope(cell, Scope()) is cell
    assert within_scope(cell, Scope(maximum_prompt_tokens=50)).prompt_tokens == (50,)


def test_sweep_of_one_deployment_that_asks_for_drafts_is_refused_when_loaded() -> None:
    text = (resources.files("k3runner.tiers") / "quick.toml").read_text("utf-8")
    with pytest.raises(UsageError, match=r"cannot ask for draft tokens, found \[7\]"):
        parse_tier(text + "draft_tokens = [7]\n", where="tier quick")

import pytest

from k3bundle.canonical import plan_sha256
from k3bundle.environment import NodeFacts
from k3bundle.plan import ServingCell
from k3runner.errors import UsageError
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.subjects import load_subject
from k3runner.tiers import load_tier
from k3runner.tiers.loading import parse_tier


@pytest.fixture(scope="module")
def node() -> NodeFacts:
    return read_node_facts()


def test_build_plan_smoke_is_abba_with_pairs(node: NodeFacts) -> None:
    plan = build_plan(load_tier("smoke"), load_subject("k3-tiny"), node, "paired")
    assert [(one.slot, one.arm, one.pair) for one in plan.boots] == [
        (0, "baseline", 0),
        (1, "candidate", 0),
        (2, "candidate", 1),
        (3, "baseline", 1),
    ]
    assert [arm.expected_path for arm in plan.arms] == ["stock", "candidate"]


def test_build_plan_smoke_never_claims_speed_and_doubles_the_tie_margin(node: NodeFacts) -> None:
    plan = build_plan(load_tier("smoke"), load_subject("k3-tiny"), node, "paired")
    assert plan.gates.claims_speed is False
    assert plan.gates.tie_margin_nats == 2 * plan.gates.logprob_tolerance_nats
    text = " ".join(plan.limits)
    for word in ("graph", "host", "Speed", "random"):
        assert word in text


def test_build_plan_is_the_same_for_the_same_arguments(node: NodeFacts) -> None:
    plans = [
        build_plan(load_tier("smoke"), load_subject("k3-tiny"), node, "paired") for _ in range(2)
    ]
    assert plan_sha256(plans[0]) == plan_sha256(plans[1])


def test_build_plan_single_has_one_arm_and_says_what_it_cannot_show(node: NodeFacts) -> None:
    plan = build_plan(load_tier("smoke"), load_subject("k3-tiny"), node, "single")
    assert len(plan.arms) == len(plan.boots) == 1
    assert "no claim is made" in plan.limits[-1]


def test_build_plan_cell_too_large_for_the_node_is_skipped_with_a_reason(node: NodeFacts) -> None:
    tier = load_tier("smoke")
    serving = next(cell for cell in tier.cells if isinstance(cell, ServingCell))
    large = serving.model_copy(update={"concurrency": 32 * node.cpu_count + 1, "cell_id": "large"})
    plan = build_plan(
        type(tier)(tier.name, tier.boot_order, (serving, large), tier.gates, tier.limits),
        load_subject("k3-tiny"),
        node,
        "paired",
    )
    assert [cell.kind for cell in plan.cells] == ["serving", "skipped"]


@pytest.mark.parametrize("name", ["kernels", "quick", "standard", "full"])
def test_load_tier_that_is_not_built_says_so(name: str) -> None:
    with pytest.raises(UsageError, match="ships the smoke tier only"):
        load_tier(name)


def test_load_tier_unknown_lists_the_tiers() -> None:
    with pytest.raises(UsageError, match="smoke, kernels, quick, standard, full"):
        load_tier("fast")


def test_parse_tier_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="`boot_order` is missing"):
        parse_tier('name = "smoke"\n', where="tier x")


def test_node_facts_name_no_host_or_user(node: NodeFacts) -> None:
    assert node.cpu_count >= 1
    assert node.memory_bytes > 1 << 28
    assert node.cpu_model
    assert node.gpus == ()

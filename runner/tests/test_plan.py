from dataclasses import replace

import pytest

from k3bundle.canonical import plan_sha256
from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import GreedyCell, ServingCell, SkippedCell
from k3bundle.plan_rules import plan_findings
from k3runner.errors import MachineError, UsageError
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


def _gb300(node: NodeFacts, count: int = 8) -> NodeFacts:
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability="10.3")
    return node.model_copy(update={"gpus": (gpu,) * count, "cpu_count": 144})


_GPU_SUBJECTS = ("deepseek-v41-flash", "kimi-k3-k3decode", "kimi-k3-upstream")


@pytest.mark.parametrize("tier", ["smoke", "quick", "standard", "full"])
@pytest.mark.parametrize("subject", [*_GPU_SUBJECTS, "k3-tiny"])
def test_every_shipped_tier_and_subject_is_a_plan_without_contradiction(
    tier: str, subject: str, node: NodeFacts
) -> None:
    plan = build_plan(load_tier(tier), load_subject(subject), _gb300(node), "paired")
    assert list(plan_findings(plan)) == []
    assert {cell.deployment for cell in plan.cells if not isinstance(cell, SkippedCell)} == {
        deployment.name for deployment in plan.deployments
    }


def test_standard_boots_each_deployment_once_for_all_its_cells(node: NodeFacts) -> None:
    tier = load_tier("standard")
    plan = build_plan(tier, load_subject("kimi-k3-upstream"), _gb300(node), "paired")
    each = len(tier.boot_order) + 2 * tier.null_pairs
    assert len(plan.boots) == each * len(plan.deployments)
    assert [one.name for one in plan.deployments] == ["tp8", "tp8-k3", "tp8-k7", "tp8-dcp8"]


def test_cells_lie_between_the_prepared_sizes_and_just_beyond_them(node: NodeFacts) -> None:
    plan = build_plan(
        load_tier("standard"), load_subject("kimi-k3-upstream"), _gb300(node), "paired"
    )
    streams: dict[str, dict[int, bool]] = {}
    for cell in plan.cells:
        if isinstance(cell, ServingCell) and cell.prompt_tokens == 1024:
            streams.setdefault(cell.deployment, {})[cell.concurrency] = cell.expects_fallback
    assert {3, 5, 9, 12, 17, 33, 48} <= set(streams["tp8"])
    first_aside = {name: min(n for n, aside in of.items() if aside) for name, of in streams.items()}
    assert first_aside == {"tp8": 65, "tp8-dcp8": 65, "tp8-k3": 17, "tp8-k7": 9}


def test_every_deployment_that_is_timed_has_its_answers_compared(node: NodeFacts) -> None:
    plan = build_plan(
        load_tier("standard"), load_subject("kimi-k3-upstream"), _gb300(node), "paired"
    )
    timed = {cell.deployment for cell in plan.cells if isinstance(cell, ServingCell)}
    assert timed == {cell.deployment for cell in plan.cells if isinstance(cell, GreedyCell)}
    assert len(timed) == len(plan.deployments)


def test_quick_boots_one_deployment(node: NodeFacts) -> None:
    plan = build_plan(load_tier("quick"), load_subject("kimi-k3-upstream"), _gb300(node), "paired")
    assert [one.name for one in plan.deployments] == ["tp8"]
    assert len(plan.boots) == 4


def test_a_machine_that_can_run_nothing_is_told_why(node: NodeFacts) -> None:
    with pytest.raises(MachineError, match=r"needs 8 GPUs .*this machine has none"):
        build_plan(load_tier("quick"), load_subject("kimi-k3-upstream"), node, "paired")


def test_a_subject_may_be_stricter_than_its_tier_and_not_name_another_gate(
    node: NodeFacts,
) -> None:
    subject = load_subject("k3-tiny")
    strict = replace(subject, gates={"minimum_decode_coverage": 0.99})
    plan = build_plan(load_tier("smoke"), strict, node, "paired")
    assert plan.gates.minimum_decode_coverage == 0.99
    with pytest.raises(UsageError, match="gate `coverage`"):
        build_plan(load_tier("smoke"), replace(subject, gates={"coverage": 1}), node, "paired")


def test_load_tier_unknown_lists_the_tiers() -> None:
    with pytest.raises(UsageError, match="smoke, kernels, quick, standard, full"):
        load_tier("fast")


def test_parse_tier_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match="`boots` is missing"):
        parse_tier('name = "smoke"\n', where="tier x")


def test_node_facts_name_no_host_or_user(node: NodeFacts) -> None:
    assert node.cpu_count >= 1
    assert node.memory_bytes > 1 << 28
    assert node.cpu_model
    assert node.gpus == ()

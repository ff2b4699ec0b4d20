"""A plan boots the fewest deployments that serve its cells, against trying every set of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import Deployment
from k3runner.errors import MachineError
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.subjects import Subject, load_subject
from k3runner.subjects.scope import Scope, SubjectDeployment
from k3runner.tiers import Tier, load_tier
from k3runner.tiers.sweep import Sweep

_NAMES = ("a", "b", "c")
_HAS_GPUS = 8
_SWEEP = Sweep(
    label="serving",
    endpoint="completions",
    prompt_tokens=(16,),
    output_tokens=8,
    concurrency=(1,),
    beyond_prepared=False,
    one_deployment=False,
    draft_tokens=(),
    requests_per_stream=1,
    minimum_requests=1,
)
_SWEEPS = {
    "none": (),
    "one deployment": (replace(_SWEEP, one_deployment=True),),
    "all": (_SWEEP,),
    "with drafts": (replace(_SWEEP, draft_tokens=(7,)),),
}


@pytest.fixture(scope="module")
def node() -> NodeFacts:
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability="10.3")
    return read_node_facts().model_copy(update={"gpus": (gpu,) * _HAS_GPUS})


def _subject(gpus: tuple[int, ...], drafts: tuple[int, ...]) -> Subject:
    deployments = tuple(
        SubjectDeployment(spec=Deployment(name=name, gpu_count=count, draft_tokens=tokens))
        for name, count, tokens in zip(_NAMES, gpus, drafts, strict=True)
    )
    return replace(load_subject("k3-tiny"), deployments=deployments, scope=Scope())


def _subsets(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    sizes = range(len(names) + 1)
    return map(frozenset, chain.from_iterable(combinations(names, size) for size in sizes))


def _choices(tier: Tier, subject: Subject) -> list[frozenset[str]]:
    """For each cell that this machine can run, the deployments that may run it."""
    able = [one.spec for one in subject.deployments if one.spec.gpu_count <= _HAS_GPUS]
    anywhere = frozenset(one.name for one in able)
    choices = [anywhere for _ in tier.cells]
    for sweep in tier.sweeps:
        if sweep.one_deployment:
            choices.append(anywhere)
        else:
            choices += [frozenset({one.name}) for one in able if sweep.applies_to(one)]
    return choices


@pytest.mark.parametrize("sweeps", _SWEEPS)
def test_every_plan_of_three_deployments_has_the_fewest_boots(sweeps: str, node: NodeFacts) -> None:
    tier = replace(load_tier("quick"), sweeps=_SWEEPS[sweeps])
    for gpus, drafts in product(product((8, 16), repeat=3), product((0, 7), repeat=3)):
        subject = _subject(gpus, drafts)
        choices = _choices(tier, subject)
        if not any(choices):
            with pytest.raises(MachineError, match="needs 16 GPUs"):
                build_plan(tier, subject, node, "paired")
            continue
        plan = build_plan(tier, subject, node, "paired")
        booted = [deployment.name for deployment in plan.deployments]
        serving = [s for s in _subsets(_NAMES) if all(choice & s for choice in choices)]
        assert frozenset(booted) in serving
        assert len(booted) == min(len(one) for one in serving)
        assert len(plan.boots) == len(booted) * (len(tier.boot_order) + 2 * tier.null_pairs)


def test_of_equal_deployments_the_one_that_the_subject_prefers_is_taken(node: NodeFacts) -> None:
    for gpus, first in (((8, 8, 8), "a"), ((16, 8, 8), "b"), ((16, 16, 8), "c")):
        plan = build_plan(load_tier("quick"), _subject(gpus, (0, 0, 0)), node, "paired")
        assert [deployment.name for deployment in plan.deployments] == [first]

"""What becomes of a cell in a subject's scope and on a machine."""

import pytest

from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import Deployment, GreedyCell, ServingCell, SkippedCell
from k3bundle.speed_role import Excused, NonInferiority, Superiority
from k3bundle.step_tokens import LATENCY_SPECIALIZED
from k3runner.cell_fit import fit_cell
from k3runner.node_facts import read_node_facts
from k3runner.subjects.scope import Excuse, Scope, SubjectDeployment

_SCOPE = Scope(
    compute_capabilities=("10.0", "10.3"),
    maximum_concurrency=128,
    maximum_prompt_tokens=32768,
    preparation=LATENCY_SPECIALIZED,
    excuses=(Excuse("*-c3", "Three requests are padded to four by design."),),
)


def _deployment(drafts: int = 0, gpus: int = 8) -> SubjectDeployment:
    return SubjectDeployment(spec=Deployment(name="tp8", gpu_count=gpus, draft_tokens=drafts))


def _cell(concurrency: int, prompt_tokens: int = 1024) -> ServingCell:
    return ServingCell(
        cell_id=f"tp8-c{concurrency}",
        deployment="tp8",
        endpoint="completions",
        concurrency=concurrency,
        prompt_tokens=prompt_tokens,
        output_tokens=8,
        warmup_requests=0,
        request_count=8,
    )


def _node(count: int = 8, capability: str = "10.3") -> NodeFacts:
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability=capability)
    return read_node_facts().model_copy(update={"gpus": (gpu,) * count})


@pytest.mark.parametrize(
    ("concurrency", "drafts", "aside"),
    [(64, 0, False), (65, 0, True), (8, 7, False), (9, 7, True), (16, 3, False), (17, 3, True)],
)
def test_steps_beyond_the_prepared_tokens_are_planned_as_served_by_stock(
    concurrency: int, drafts: int, aside: bool
) -> None:
    fitted = fit_cell(_cell(concurrency), _deployment(drafts), _SCOPE, _node())
    assert isinstance(fitted, ServingCell)
    assert fitted.expects_fallback is aside
    assert isinstance(fitted.speed, NonInferiority if aside else Superiority)


def test_every_supported_cell_must_be_faster_unless_the_subject_excuses_it() -> None:
    fitted = {n: fit_cell(_cell(n), _deployment(), _SCOPE, _node()) for n in range(1, 6)}
    roles = {n: cell.speed for n, cell in fitted.items() if isinstance(cell, ServingCell)}
    assert roles == dict.fromkeys([1, 2, 4, 5], Superiority()) | {
        3: Excused(reason="Three requests are padded to four by design.")
    }


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (_cell(129), "at most 128 requests in flight; this cell has 129"),
        (_cell(1, 32769), "at most 32768 tokens; this cell has 32769"),
        (
            GreedyCell(
                cell_id="greedy", concurrency=1, prompt_tokens=(33000, 40000), output_tokens=1
            ),
            "this cell has 40000",
        ),
    ],
)
def test_what_the_subject_does_not_claim_is_skipped_as_unsupported(
    cell: ServingCell | GreedyCell, said: str
) -> None:
    fitted = fit_cell(cell, _deployment(), _SCOPE, _node())
    assert isinstance(fitted, SkippedCell)
    assert fitted.cause == "unsupported"
    assert fitted.of_kind == cell.kind
    assert said in fitted.reason


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (_node(4), "needs 8 GPUs of compute capability 10.0 or 10.3; this machine has 4 NVIDIA"),
        (_node(8, "9.0"), "this machine has 8 NVIDIA GB300 (9.0)"),
        (_node(0), "this machine has none"),
    ],
)
def test_what_the_machine_lacks_is_said(node: NodeFacts, said: str) -> None:
    fitted = fit_cell(_cell(1), _deployment(), _SCOPE, node)
    assert isinstance(fitted, SkippedCell)
    assert fitted.cause == "machine"
    assert said in fitted.reason


def test_too_many_streams_for_a_cpu_would_measure_the_client() -> None:
    node = _node(0)
    many = 32 * node.cpu_count + 1
    fitted = fit_cell(_cell(many), _deployment(gpus=0), Scope(), node)
    assert isinstance(fitted, SkippedCell)
    assert "load client" in fitted.reason

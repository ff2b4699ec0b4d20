"""Every shipped subject gives a plan, records that verify, a verdict and a report.

The records are made, not measured: they have the shape of a run on a node of eight GB300.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k3bundle.derive import derive
from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import GreedyCell, Plan
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256, seal
from k3bundle.verdict import CellInvalid, CellPass, ServingEvidence, Verdict
from k3bundle.verify import verify
from k3bundle_testing import example_signer, files_of, good_records
from k3bundle_testing.sealing import SEALED_AT_UTC
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.report.files import ReportFiles, write_reports
from k3runner.report.source import ReportedRun
from k3runner.report.view import SealView
from k3runner.subjects import load_subject
from k3runner.subjects.definition import Subject
from k3runner.subjects.scope import Excuse
from k3runner.tiers import load_tier
from k3runner.tiers.loading import Tier

GPU_SUBJECTS = ("deepseek-v41-flash", "kimi-k3-k3decode", "kimi-k3-upstream")
SUBJECTS = (*GPU_SUBJECTS, "k3-tiny")


@pytest.fixture(scope="module")
def node() -> NodeFacts:
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability="10.3")
    facts = {"gpus": (gpu,) * 8, "cpu_count": 144, "driver_version": "600.1"}
    return read_node_facts().model_copy(update=facts)


def _fewer_requests(tier: Tier, streams: tuple[int, ...] | None = None) -> Tier:
    """The tier with one request for each stream, and three greedy prompts: fewer records.

    Args:
        tier: The shipped tier.
        streams: Requests in flight of its sweeps; None: as shipped, so cells and boots are too.
    """
    sweeps = (
        replace(
            one,
            requests_per_stream=1,
            minimum_requests=1,
            concurrency=streams or one.concurrency,
        )
        for one in tier.sweeps
    )
    cells = (
        one.model_copy(update={"prompt_tokens": one.prompt_tokens[:3]})
        if isinstance(one, GreedyCell)
        else one
        for one in tier.cells
    )
    return replace(tier, sweeps=tuple(sweeps), cells=tuple(cells))


def _excusing(name: str, *cells: str) -> Subject:
    subject = load_subject(name)
    excuses = tuple(Excuse(one, "Long prompts are bound by prefill.") for one in cells)
    return replace(subject, scope=replace(subject.scope, excuses=excuses))


def _judged(plan: Plan, node: NodeFacts, **changes: Any) -> Verdict:
    return derive(good_records(plan=plan, environment=node, **changes))


def _reported(plan: Plan, node: NodeFacts, folder: Path) -> Verdict:
    """Seal a run of the plan in which the candidate is faster, verify it and write its report."""
    records = good_records(plan=plan, environment=node, candidate_speed=1.3)
    files = seal(files_of(records), example_signer(), SEALED_AT_UTC)
    checked = verify(files, Policy(require_standard=True))
    assert checked.findings == ()
    verdict = derive(records)
    signer = checked.signer_fingerprint
    seal_view = SealView(bundle_sha256(files), signer, SEALED_AT_UTC, "run.k3b")
    forms = {name: folder / f"report.{name}" for name in ("html", "md", "json", "csv")}
    written = ReportFiles(forms["html"], forms["md"], forms["json"], forms["csv"])
    write_reports(ReportedRun(records, verdict, seal_view), written, echo=print)
    page, text = forms["html"].read_text(), forms["md"].read_text()
    numbers = forms["csv"].read_text()
    for cell in plan.cells:
        assert f",{cell.cell_id}," in numbers
        assert cell.cell_id in page
        assert f"| `{cell.cell_id}` |" in text
    found = json.loads(forms["json"].read_text())
    assert {one["name"]: one["status"] for one in found["claims"]} == _claims(verdict)
    assert text.splitlines()[0].endswith(verdict.status)
    return verdict


def _claims(verdict: Verdict) -> dict[str, str]:
    return {claim.name: claim.status for claim in verdict.claims}


def _faster_in(verdict: Verdict) -> str:
    return next(one.label for one in verdict.headline if one.name == "faster_cells")


@pytest.mark.parametrize("subject", GPU_SUBJECTS)
def test_quick_with_a_faster_candidate_passes_every_claim(
    subject: str, node: NodeFacts, tmp_path: Path
) -> None:
    plan = build_plan(load_tier("quick"), load_subject(subject), node, "paired")
    verdict = _reported(plan, node, tmp_path)
    assert verdict.status == "PASS"
    assert set(_claims(verdict).values()) == {"PASS"}
    assert _faster_in(verdict).endswith(": 4 of 4 supported cells")


def test_quick_of_the_small_model_compares_the_answers_that_fit_its_context(
    node: NodeFacts, tmp_path: Path
) -> None:
    plan = build_plan(load_tier("quick"), load_subject("k3-tiny"), node, "paired")
    verdict = _reported(plan, node, tmp_path)
    assert verdict.status == "PASS"
    assert set(_claims(verdict).values()) == {"PASS"}
    assert any("greedy-c8 leaves out 4 prompts" in limit for limit in verdict.limits)


def test_standard_of_one_deployment_can_pass_and_says_that_it_is_of_that_one(
    node: NodeFacts, tmp_path: Path
) -> None:
    tier = _fewer_requests(load_tier("standard"), streams=(1, 9))
    plan = build_plan(tier, load_subject("kimi-k3-upstream"), node, "paired", only=("tp8",))
    verdict = _reported(plan, node, tmp_path)
    assert verdict.status == "PASS"
    assert set(_claims(verdict).values()) == {"PASS"}
    assert "for tp8 only" in verdict.claims[3].sentence
    assert verdict.sentence.endswith("Said of tp8 only, as was asked for.")
    assert "tp8 only, by request" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_candidate_that_stock_serves_measures_stock_however_fast(
    subject: str, node: NodeFacts
) -> None:
    plan = build_plan(load_tier("quick"), load_subject(subject), node, "paired")
    stock = plan.arms[0].expected_path
    verdict = _judged(plan, node, candidate_path=stock, candidate_speed=1.3)
    judged = [cell for cell in verdict.cells if cell.status != "SKIPPED"]
    assert judged
    for cell in judged:
        assert isinstance(cell, CellInvalid)
        assert cell.cause == "measures_stock"
        assert cell.reason.startswith("measures stock: ")
    assert verdict.status == "INVALID"
    assert "PASS" not in {_claims(verdict)[name] for name in ("bounded", "correct", "faster")}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_half_the_speed_is_a_fail_and_equal_arms_never_are(subject: str, node: NodeFacts) -> None:
    plan = build_plan(load_tier("quick"), load_subject(subject), node, "paired")
    slow = _judged(plan, node, candidate_speed=0.5)
    assert slow.status == _claims(slow)["faster"] == "FAIL"
    assert slow.regressions
    equal = _judged(plan, node)
    assert equal.status not in {"FAIL", "PASS"}
    assert {cell.status for cell in equal.cells}.isdisjoint({"FAIL"})
    assert equal.regressions == ()


def test_standard_counts_excused_cells_and_does_not_claim_to_be_faster(
    node: NodeFacts, tmp_path: Path
) -> None:
    subject = _excusing("deepseek-v41-flash", "*-isl32768-*")
    shipped = build_plan(load_tier("standard"), subject, node, "paired")
    plan = build_plan(_fewer_requests(load_tier("standard")), subject, node, "paired")
    assert [cell.cell_id for cell in plan.cells] == [cell.cell_id for cell in shipped.cells]
    assert plan.boots == shipped.boots
    verdict = _reported(plan, node, tmp_path)
    assert _faster_in(verdict).endswith(": 13 of 15 supported cells, 2 excused")
    assert _claims(verdict) == {
        "isolated": "PASS",
        "bounded": "PASS",
        "correct": "PASS",
        "faster": "NOT_CLAIMED",
    }
    assert "bound by prefill" in verdict.claims[3].sentence
    noise = [
        cell.evidence.null
        for cell in verdict.cells
        if isinstance(cell, CellPass) and isinstance(cell.evidence, ServingEvidence)
    ]
    assert len(noise) == 15
    assert None not in noise


def test_standard_of_several_deployments_says_which_this_node_cannot_run(
    node: NodeFacts, tmp_path: Path
) -> None:
    tier = _fewer_requests(load_tier("standard"), streams=(1, 9))
    plan = build_plan(tier, load_subject("kimi-k3-upstream"), node, "paired")
    assert len(plan.deployments) == 4
    aside = [cell.cell_id for cell in plan.cells if getattr(cell, "expects_fallback", False)]
    assert aside
    verdict = _reported(plan, node, tmp_path)
    by_id = {cell.cell_id: cell for cell in verdict.cells}
    assert {by_id[cell_id].status for cell_id in aside} == {"PASS"}
    assert {one.status for one in by_id.values()} == {"PASS", "SKIPPED"}
    assert _claims(verdict)["faster"] == "NOT_CLAIMED"
    assert "Deployment tp16 needs 16 GPUs" in verdict.claims[3].sentence
    assert "not run" in _faster_in(verdict)

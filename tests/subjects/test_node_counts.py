"""What holds on one machine is never shown as if it held on several, nor the other way round.

Exchanges between machines take other links and other code: a path that is right on one node has
been seen to answer with fluent nonsense on two.
"""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.errors import BundleError
from k3bundle.plan import Plan
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256, seal
from k3bundle.verify import verify
from k3bundle_testing import example_signer, files_of, good_records
from k3bundle_testing.sealing import SEALED_AT_UTC
from k3runner.errors import MachineError
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.subjects import load_subject
from k3runner.tiers import load_tier
from k3server.comparability import differences_of_results, reasons_against
from k3server.document import SubmissionDocument


def machines(count: int, gpus: int) -> NodeFacts:
    """So many machines alike, with so many GB300 each."""
    gpu = GpuFacts(name="NVIDIA GB300", memory_bytes=1 << 38, compute_capability="10.3")
    facts = {"gpus": (gpu,) * gpus, "cpu_count": 144, "driver_version": "600.1"}
    return read_node_facts().model_copy(update={**facts, "node_count": count})


def plan_for(node: NodeFacts) -> Plan:
    return build_plan(load_tier("quick"), load_subject("kimi-k3-upstream"), node, "paired")


def run_on(node: NodeFacts) -> RunRecords:
    return good_records(plan=plan_for(node), environment=node, candidate_speed=1.3)


def document(records: RunRecords) -> SubmissionDocument:
    """The sealed run, as the registry keeps it."""
    files = seal(files_of(records), example_signer(), SEALED_AT_UTC)
    report = verify(files, Policy(require_standard=True))
    assert report.findings == ()
    assert report.manifest is not None
    assert report.verdict is not None
    assert report.signer_fingerprint is not None
    return SubmissionDocument(
        bundle_sha256=bundle_sha256(files),
        signer_fingerprint=report.signer_fingerprint,
        manifest=report.manifest,
        plan=records.plan,
        subject=records.subject,
        environment=records.environment,
        attempts=records.attempts,
        boots=records.boots,
        scrub=records.scrub,
        verdict=report.verdict,
    )


def test_b27_one_tray_does_not_stand_for_two() -> None:
    with pytest.raises(MachineError) as refused:
        plan_for(machines(1, 4))
    assert "Deployment tp8 needs 8 GPUs" in str(refused.value)
    assert "this machine has 4 NVIDIA GB300 (10.3)" in str(refused.value)
    with pytest.raises(MachineError, match="each of 3 machines has 2 NVIDIA GB300"):
        plan_for(machines(3, 2))
    assert derive(run_on(machines(2, 4))).status == "PASS"


def test_b27_as_many_gpus_in_one_machine_are_another_machine() -> None:
    one, two = document(run_on(machines(1, 8))), document(run_on(machines(2, 4)))
    assert one.manifest.run.plan_sha256 == two.manifest.run.plan_sha256
    assert (one.verdict.status, two.verdict.status) == ("PASS", "PASS")
    (reason,) = reasons_against(one, two)
    assert reason.startswith("The machines differ: 8 x NVIDIA GB300, and 2 machines, each with 4")
    assert differences_of_results(one, two) == (reason,)


@pytest.mark.parametrize("node", [machines(1, 4), machines(3, 2)])
def test_b27_a_bundle_of_fewer_gpus_than_its_deployments_have_is_refused(node: NodeFacts) -> None:
    records = replace(run_on(machines(2, 4)), environment=node)
    with pytest.raises(BundleError) as refused:
        seal(files_of(records), example_signer(), SEALED_AT_UTC)
    (finding,) = refused.value.findings
    there = f"{len(node.gpus) * node.node_count} GPUs, {len(node.gpus)} in each machine"
    assert (finding.code, finding.why) == (
        "records-inconsistent",
        f"Expected at most {there}, found 8.",
    )


def test_the_same_number_of_machines_can_be_compared() -> None:
    one, two = document(run_on(machines(2, 4))), document(run_on(machines(2, 4)))
    assert reasons_against(one, two) == ()

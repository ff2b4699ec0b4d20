"""The kernels tier: a verdict from what a package said, line by line."""

from dataclasses import replace
from typing import Any

import pytest

from k3bundle.derive import derive
from k3bundle.environment import GpuFacts
from k3bundle.kernel_evidence import KernelCheckEvidence, KernelTimingEvidence
from k3bundle.kernel_record import AuditFinding
from k3bundle.policy import Policy
from k3bundle.seal import seal
from k3bundle.subject import FileDifference
from k3bundle.telemetry import TelemetryLine
from k3bundle.verify import verify
from k3bundle_testing import example_signer, files_of
from k3bundle_testing.example_kernels import (
    good_kernel_records,
)
from k3bundle_testing.sealing import SEALED_AT_UTC

from .kernel_lines import cause, cell, claims, findings, lines_with, without


def test_a_right_package_passes_what_it_claims_and_nothing_else() -> None:
    verdict = derive(good_kernel_records())
    assert verdict.status == "PASS"
    assert verdict.sentence == (
        "PASS: every case of 2 ops passes against its reference, and no read comes too early; "
        "2 cases timed. Nothing is said of serving."
    )
    assert claims(verdict) == {
        "isolated": "NOT_CLAIMED",
        "bounded": "NOT_CLAIMED",
        "correct": "PASS",
        "faster": "NOT_CLAIMED",
    }
    assert {number.name: number.value for number in verdict.headline} == {
        "passed_cases_share": 1.0,
        "largest_error_share": 0.25,
        "audit_findings": 0.0,
        "least_sol_fraction": 0.4,
    }


def test_times_follow_from_bytes_and_medians_alone() -> None:
    evidence = getattr(cell(derive(good_kernel_records()), "bench"), "evidence", None)
    assert isinstance(evidence, KernelTimingEvidence)
    first = evidence.timings[0]
    assert (first.op, first.latency_us) == ("attn_res", 25.0)
    assert first.bandwidth_gb_per_s == pytest.approx(2000.0)
    assert first.spread_share == pytest.approx(0.1)
    assert first.read_ratio == pytest.approx(1.25)


def test_a_sealed_run_verifies_and_is_as_strict_as_its_tier() -> None:
    files = seal(files_of(good_kernel_records()), example_signer(), SEALED_AT_UTC)
    report = verify(files, Policy(require_standard=True, minimum_tier="kernels"))
    assert report.findings == ()
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_a_package_is_no_evidence_of_a_tier_that_serves() -> None:
    files = seal(files_of(good_kernel_records()), example_signer(), SEALED_AT_UTC)
    (finding,) = verify(files, Policy(minimum_tier="smoke")).findings
    assert (finding.code, finding.why) == (
        "policy-tier",
        "Expected tier smoke or above, found kernels.",
    )


@pytest.mark.parametrize("outcome", ["failed", "errored"])
def test_one_wrong_case_fails_the_run_and_takes_the_times_with_it(outcome: str) -> None:
    wrong: dict[str, Any] = {
        "outcome": outcome,
        "worst": 7.5,
        "sentences": ("out: expected 1, found 2",),
    }
    records = good_kernel_records(change_line=lines_with("case", **wrong))
    verdict = derive(records)
    assert verdict.status == "FAIL"
    assert "router smoke_m3: out: expected 1, found 2" in cell(verdict, "check").reason
    assert cause(verdict, "bench") == "wrong_answers"
    assert "least_sol_fraction" not in {number.name for number in verdict.headline}
    assert claims(verdict)["correct"] == "FAIL"
    evidence = getattr(cell(verdict, "check"), "evidence", None)
    assert isinstance(evidence, KernelCheckEvidence)
    assert [op.passed for op in evidence.ops] == [3, 2]


def test_one_early_read_fails_the_audit_and_with_it_the_claim() -> None:
    found = AuditFinding(code="before-wait", at=16, why="A read may come before the wait.")
    records = good_kernel_records(change_line=lines_with("audit", findings=(found,)))
    verdict = derive(records)
    assert verdict.status == "FAIL"
    assert claims(verdict)["correct"] == "FAIL"
    assert "A read may come before the wait" in cell(verdict, "audit").reason


@pytest.mark.parametrize(
    ("left_out", "cell_id", "words"),
    [
        ([("case", "router")], "check", "1 of 2 declared ops have no answer: router"),
        ([("timing", "router")], "bench", "1 of 2 declared ops have no answer: router"),
        ([("audit", ""), ("audit", "router")], "audit", "No kernel was audited"),
    ],
)
def test_what_the_package_leaves_out_is_not_passed(
    left_out: list[tuple[str, str]], cell_id: str, words: str
) -> None:
    verdict = derive(good_kernel_records(change_line=without(*left_out)))
    assert cause(verdict, cell_id) == "missing_cases"
    assert words in cell(verdict, cell_id).reason
    assert verdict.status == "INVALID"


def test_a_group_that_was_not_run_is_not_passed() -> None:
    records = good_kernel_records(change_line=lines_with("case", group="extra"))
    verdict = derive(records)
    assert cell(verdict, "check").reason == "No case of router smoke was run."


@pytest.mark.parametrize("task", ["check", "audit", "bench"])
def test_a_command_that_ended_badly_contradicts_its_good_lines(task: str) -> None:
    records = good_kernel_records(change_line=lines_with("command", cell_id=task, exit_code=1))
    assert cause(derive(records), task) == "contradicts_itself"


@pytest.mark.parametrize("worst", [1.01, 5.0, -3.0])
def test_a_case_that_passes_with_more_error_than_is_allowed_contradicts_itself(
    worst: float,
) -> None:
    records = good_kernel_records(change_line=lines_with("case", worst=worst))
    verdict = derive(records)
    assert cause(verdict, "check") == "contradicts_itself"
    assert verdict.status != "PASS"
    assert derive(good_kernel_records(change_line=lines_with("case", worst=1.0))).status == "PASS"


def test_a_time_below_that_of_moving_the_bytes_is_no_time() -> None:
    records = good_kernel_records(change_line=lines_with("timing", roofline_us=26.0))
    verdict = derive(records)
    assert cause(verdict, "bench") == "implausible_time"
    # Bytes that come from a cache may be faster than the memory is.
    warm = good_kernel_records(change_line=lines_with("timing", roofline_us=26.0, cold=False))
    assert derive(warm).status == "PASS"


@pytest.mark.parametrize(
    ("changes", "cause_of_it", "words"),
    [
        # Nine times the speed of the memory is faster than any cache.
        (
            {"roofline_us": 225.0, "cold": False},
            "implausible_time",
            "9.00 times the speed of light",
        ),
        (
            {"read_bytes": 2**30, "roofline_us": 300.0, "latency_us": 400.0, "cold": False},
            "contradicts_itself",
            "no cache holds them",
        ),
        ({"roofline_us": 1.0}, "contradicts_itself", "for which 1 us are no floor"),
        ({"roofline_us": 0.0, "cold": False}, "contradicts_itself", "for which 0 us are no floor"),
    ],
)
def test_a_line_cannot_talk_its_time_out_of_being_judged(
    changes: dict[str, Any], cause_of_it: str, words: str
) -> None:
    verdict = derive(good_kernel_records(change_line=lines_with("timing", **changes)))
    assert cause(verdict, "bench") == cause_of_it
    assert words in cell(verdict, "bench").reason


def test_times_out_of_a_cache_are_counted_apart() -> None:
    verdict = derive(good_kernel_records(change_line=lines_with("timing", cold=False)))
    assert "2 cases of 2 ops timed, 1 of them out of a cache" in cell(verdict, "bench").reason


@pytest.mark.parametrize("task", ["check", "audit", "bench"])
def test_a_package_of_another_commit_is_no_evidence_for_this_one(task: str) -> None:
    facts = {"commit": "d" * 40}
    records = good_kernel_records(change_line=lines_with("command", cell_id=task, facts=facts))
    verdict = derive(records)
    assert cause(verdict, task) == "other_commit"
    assert f"of commit {'d' * 40}; c0ffee0" in cell(verdict, task).reason
    same = {"commit": records.subject.change.commit_sha}
    agreed = good_kernel_records(change_line=lines_with("command", cell_id=task, facts=same))
    assert derive(agreed).status == "PASS"


@pytest.mark.parametrize("task", ["check", "audit", "bench"])
def test_an_answer_that_could_not_be_read_takes_the_pass_of_its_cell_alone(task: str) -> None:
    unread: dict[str, Any] = {"unread_lines": 2, "unread": ("Line 3 is no answer: `op`: missing.",)}
    records = good_kernel_records(change_line=lines_with("command", cell_id=task, **unread))
    assert findings(records) == []
    verdict = derive(records)
    assert cause(verdict, task) == "unreadable_answer"
    assert "2 answers could not be read, for example: Line 3" in cell(verdict, task).reason
    others = {one.cell_id: one.status for one in verdict.cells if one.cell_id != task}
    assert set(others.values()) == {"PASS"}
    assert verdict.status == "INVALID"


def test_a_wrong_case_beside_an_unreadable_answer_is_still_a_failure() -> None:
    wrong = lines_with("case", outcome="failed", worst=9.0)
    unread = lines_with("command", cell_id="check", unread_lines=1, unread=("Line 9.",))
    verdict = derive(good_kernel_records(change_line=lambda line: unread(wrong(line))))
    assert cell(verdict, "check").status == "FAIL"


def test_another_accelerator_than_the_machine_has_is_noticed() -> None:
    facts = {"gpu": "NVIDIA H200"}
    records = good_kernel_records(change_line=lines_with("command", facts=facts))
    verdict = derive(records)
    assert cause(verdict, "check") == "other_accelerator"
    assert "ran on NVIDIA H200; this machine has Example GPU" in cell(verdict, "check").reason
    gpu = GpuFacts(name="NVIDIA H200", memory_bytes=1 << 37, compute_capability="9.0")
    here = records.environment.model_copy(update={"gpus": (gpu,)})
    assert cause(derive(replace(records, environment=here)), "audit") == "other_accelerator"


def test_times_of_a_slowed_or_unwatched_accelerator_are_not_believed() -> None:
    good = good_kernel_records()
    slowed = tuple(_slowed(line) for line in good.telemetry)
    assert cause(derive(replace(good, telemetry=slowed)), "bench") == "throttled"
    assert cause(derive(replace(good, telemetry=())), "bench") == "no_telemetry"
    assert derive(replace(good, telemetry=())).cells[0].status == "PASS"


def _slowed(line: TelemetryLine) -> TelemetryLine:
    if line.kind != "sample":
        return line
    gpus = tuple(gpu.model_copy(update={"clock_event_reasons": 0x40}) for gpu in line.gpus)
    return line.model_copy(update={"gpus": gpus})


def test_a_task_that_did_not_finish_leaves_the_run_incomplete() -> None:
    good = good_kernel_records()
    verdict = derive(replace(good, cells=good.cells[:2]))
    assert cause(verdict, "bench") == "missing_boots"
    assert verdict.status == "INCOMPLETE"


def test_a_package_that_was_altered_while_it_ran_is_no_pass() -> None:
    good = good_kernel_records()
    engine = good.subject.engine
    edited = engine.model_copy(
        update={"differences": (FileDifference(path="example/check.py", kind="changed"),)}
    )
    subject = good.subject.model_copy(update={"engine": edited})
    verdict = derive(replace(good, subject=subject))
    assert verdict.status == "FAIL"
    assert "1 package file differs from the RECORD" in verdict.claims[0].sentence

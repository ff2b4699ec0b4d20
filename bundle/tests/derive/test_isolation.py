"""Whether the arms differ only in what the plan declares."""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.isolation_record import IsolationAudit
from k3bundle.separation import Alteration, SeparationRecord
from k3bundle.subject import FileDifference
from k3bundle.verdict import Claim

from .changes import (
    with_config,
    without_cells,
)
from .records import (
    BACKEND_KEY,
    a_plan,
    a_run,
)
from .subject_records import a_subject

CONFIG = {"model.dtype": "float32", BACKEND_KEY: "candidate"}


def isolated(records: RunRecords) -> Claim:
    claim = derive(records).claims[0]
    assert claim.name == "isolated"
    return claim


def test_arms_that_differ_in_the_allowed_key_are_isolated() -> None:
    claim = isolated(a_run())
    assert claim.status == "PASS"
    assert f"differ only in {BACKEND_KEY}, as planned" in claim.sentence
    assert "2048 engine files match" in claim.sentence


def test_a_key_that_the_plan_does_not_allow_fails() -> None:
    records = with_config(a_run(), 2, {**CONFIG, "model.dtype": "bfloat16"})
    claim = isolated(records)
    assert claim.status == "FAIL"
    assert "between boot-3.0 and boot-2.0" in claim.sentence
    assert "model.dtype (float32 against bfloat16)" in claim.sentence
    assert derive(records).status == "FAIL"


def test_a_key_that_only_one_arm_has_fails() -> None:
    claim = isolated(with_config(a_run(), 1, {**CONFIG, "hf_overrides": "{}"}))
    assert claim.status == "FAIL"
    assert "hf_overrides (absent against {})" in claim.sentence


@pytest.mark.parametrize(("pattern", "status"), [("extra.*", "PASS"), ("other.*", "FAIL")])
def test_allowed_keys_may_be_patterns(pattern: str, status: str) -> None:
    plan = a_plan().model_copy(update={"allowed_config_differences": (BACKEND_KEY, pattern)})
    assert isolated(with_config(a_run(plan), 1, {**CONFIG, "extra.depth": "2"})).status == status


def test_a_boot_whose_configuration_is_unknown_is_invalid() -> None:
    records = with_config(a_run(), 3, {})
    claim = isolated(records)
    assert claim.status == "INVALID"
    assert "configuration of boot-3.0 is not known" in claim.sentence
    assert derive(records).status == "INVALID"
    never_ready = replace(records, boots=tuple(e for e in records.boots if e.event != "ready"))
    assert isolated(never_ready).status == "INVALID"


def test_a_difference_is_said_even_where_another_boot_is_silent() -> None:
    records = with_config(with_config(a_run(), 3, {}), 1, {**CONFIG, "model.dtype": "bfloat16"})
    assert isolated(records).status == "FAIL"


def test_arms_of_different_engine_versions_fail() -> None:
    records = a_run()
    boots = tuple(
        event.model_copy(update={"engine_version": "0.33.0"})
        if event.event == "ready" and event.boot_id == "boot-1.0"
        else event
        for event in records.boots
    )
    claim = isolated(replace(records, boots=boots))
    assert claim.status == "FAIL"
    assert "0.32.0 and 0.33.0" in claim.sentence


def test_an_edited_engine_file_fails_and_is_listed() -> None:
    differences = tuple(FileDifference(path=f"vllm/file_{i}.py", kind="changed") for i in range(5))
    records = replace(a_run(), subject=a_subject(differences=differences))
    claim = isolated(records)
    assert claim.status == "FAIL"
    assert "5 engine files differ" in claim.sentence
    assert "vllm/file_0.py (changed)" in claim.sentence
    assert "and 2 more" in claim.sentence
    assert derive(records).status == "FAIL"


def test_an_engine_of_which_no_file_was_checked_is_invalid() -> None:
    claim = isolated(replace(a_run(), subject=a_subject(files_checked=0)))
    assert claim.status == "INVALID"
    assert "No engine file was compared" in claim.sentence


def test_boots_that_were_not_run_leave_the_run_incomplete() -> None:
    records = without_cells(a_run(), lambda event: event.slot == 3)
    claim = isolated(records)
    assert claim.status == "INVALID"
    assert "1 boot of 4 finished no cell" in claim.sentence
    assert derive(records).status == "INCOMPLETE"


def _separation(**changes: object) -> tuple[SeparationRecord, ...]:
    record = SeparationRecord(
        boot_id="boot-1.0",
        engine_user="other",
        why_same=None,
        protected_files=100,
        alterations=(),
        alterations_left_out=0,
        wall_clock_shift_ms=0.0,
    )
    return (record.model_copy(update=changes),)


def test_a_file_of_the_referee_that_was_altered_fails() -> None:
    alterations = (Alteration(path="<referee>/k3runner/run.py", kind="content"),)
    changed = _separation(alterations=alterations, alterations_left_out=2)
    claim = isolated(replace(a_run(), separation=changed))
    assert claim.status == "FAIL"
    assert claim.sentence == (
        "3 protected files were altered while boot-1.0 ran: <referee>/k3runner/run.py (content)."
    )
    assert derive(replace(a_run(), separation=changed)).status == "FAIL"


def test_the_user_of_the_engine_is_told() -> None:
    other = isolated(replace(a_run(), separation=_separation()))
    assert other.status == "PASS"
    assert "Engines ran as another user than the referee" in other.sentence
    same = _separation(engine_user="same", why_same="The runner is not root.")
    claim = isolated(replace(a_run(), separation=same))
    assert claim.status == "PASS"
    assert claim.sentence.endswith("engines ran as the referee's own user: The runner is not root.")


def _audit(*classes: str) -> IsolationAudit:
    sha = a_run().subject.change.commit_sha
    files = tuple(
        {
            "path": f"{number}.py",
            "previous_path": None,
            "change": "changed",
            "path_class": path_class,
            "area": "sampling" if path_class == "shared" else "",
            "rule": "",
            "content": "python",
            "added_lines": 1,
            "removed_lines": 0,
            "symbols": (),
            "unread": None,
        }
        for number, path_class in enumerate(classes)
    )
    return IsolationAudit.model_validate(
        {
            "policy": {"name": "vllm", "sha256": "0" * 64},
            "base_sha": "0" * 40,
            "head_sha": sha,
            "compared_sha": "0" * 40,
            "comparison": "merge_base",
            "files": files,
            "selections": (),
            "writes": (),
            "returns": (),
            "device_functions": 0,
            "notes": (),
        }
    )


def test_the_audit_of_the_change_is_told_beside_the_claim() -> None:
    shared = isolated(replace(a_run(), isolation=_audit("shared", "model_only", "unnamed")))
    assert shared.status == "PASS"
    assert "touches 2 files that other models use: named by no rule, sampling." in shared.sentence
    alone = isolated(replace(a_run(), isolation=_audit("model_only", "test")))
    assert "touches no code that other models use" in alone.sentence

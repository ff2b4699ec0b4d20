"""Bundles whose telemetry, separation or audit contradicts the run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.finding import FindingCode
from k3bundle.separation import Alteration
from k3bundle_testing.defect import Defect, Files, changed, good_verdict, resealed_records
from k3bundle_testing.example_run import good_records

__all__ = ["MACHINE_DEFECTS"]


def _with(change: Callable[[RunRecords], dict[str, Any]]) -> Callable[[], Files]:
    def make() -> Files:
        records = good_records()
        return resealed_records(replace(records, **change(records)), good_verdict())

    return make


def _telemetry_backwards(records: RunRecords) -> dict[str, Any]:
    return {"telemetry": tuple(reversed(records.telemetry))}


def _telemetry_of_no_boot(records: RunRecords) -> dict[str, Any]:
    first, *rest = records.telemetry
    return {"telemetry": (changed(first, boot_id="boot-99.0"), *rest)}


def _separation_twice(records: RunRecords) -> dict[str, Any]:
    return {"separation": (*records.separation, records.separation[0])}


def _separation_without_reason(records: RunRecords) -> dict[str, Any]:
    first, *rest = records.separation
    return {"separation": (changed(first, engine_user="same"), *rest)}


def _audit_of_another_commit(records: RunRecords) -> dict[str, Any]:
    audit = records.isolation
    assert audit is not None  # noqa: S101
    return {"isolation": changed(audit, head_sha="e" * 40)}


def _alteration_hidden_by_the_verdict(records: RunRecords) -> dict[str, Any]:
    first, *rest = records.separation
    altered = (Alteration(path="<referee>/k3runner/run.py", kind="content"),)
    return {"separation": (changed(first, alterations=altered), *rest)}


def _image_of_another_architecture(records: RunRecords) -> dict[str, Any]:
    image = changed(records.subject.image, architecture="aarch64")
    return {"subject": changed(records.subject, image=image)}


def _bad(
    name: str,
    where: str,
    change: Callable[[RunRecords], dict[str, Any]],
    code: FindingCode = "records-inconsistent",
) -> Defect:
    return Defect(name, code, where, _with(change))


MACHINE_DEFECTS: Final = (
    _bad("telemetry_runs_backwards", layout.TELEMETRY, _telemetry_backwards),
    _bad("telemetry_of_no_boot", layout.TELEMETRY, _telemetry_of_no_boot, "boot-out-of-plan"),
    _bad("separation_told_twice", layout.SEPARATION, _separation_twice),
    _bad("separation_without_reason", layout.SEPARATION, _separation_without_reason),
    _bad("image_of_another_architecture", layout.SUBJECT, _image_of_another_architecture),
    _bad("audit_of_another_commit", layout.ISOLATION, _audit_of_another_commit, "change-mismatch"),
    _bad(
        "verdict_hides_an_altered_file",
        layout.VERDICT,
        _alteration_hidden_by_the_verdict,
        "verdict-mismatch",
    ),
)

"""Rules that a plan must keep, and that tie the plan, the run and the manifest together."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import jsonschema

from k3bundle import layout
from k3bundle.answer_schema import schema_problems
from k3bundle.block_rules import block_problems
from k3bundle.bundle import RunRecords
from k3bundle.canonical import plan_sha256
from k3bundle.finding import Finding, FindingCode
from k3bundle.kernel_rules import package_problems
from k3bundle.manifest import Manifest
from k3bundle.plan import FeatureCell, Plan
from k3bundle.serving_rules import serving_problems

__all__ = ["identity_findings", "plan_findings"]

_HINT: Final = "Make the run again with k3-eval, or take the files as it wrote them."


def identity_findings(records: RunRecords, manifest: Manifest | None) -> Iterator[Finding]:
    """Yield where plan digest, nonce, change and image are not the same in every file."""
    digest = plan_sha256(records.plan)
    if records.run.plan_sha256 != digest:
        yield _differs(
            "plan-digest-mismatch", f"{layout.RUN} $.plan_sha256", digest, records.run.plan_sha256
        )
    if records.subject.subject != records.plan.subject:
        yield _differs(
            "records-inconsistent",
            f"{layout.SUBJECT} $.subject",
            records.plan.subject,
            records.subject.subject,
        )
    if manifest is None:
        return
    if manifest.run.plan_sha256 != digest:
        yield _differs(
            "plan-digest-mismatch",
            f"{layout.MANIFEST} $.run.plan_sha256",
            digest,
            manifest.run.plan_sha256,
        )
    if manifest.run.nonce != records.run.nonce:
        yield _differs(
            "nonce-mismatch",
            f"{layout.MANIFEST} $.run.nonce",
            records.run.nonce,
            manifest.run.nonce,
        )
    for field in ("run_id", "nonce_source", "created_at_utc"):
        expected, found = getattr(records.run, field), getattr(manifest.run, field)
        if expected != found:
            yield _differs(
                "records-inconsistent", f"{layout.MANIFEST} $.run.{field}", expected, found
            )
    if manifest.change != records.subject.change:
        yield _differs(
            "change-mismatch",
            f"{layout.MANIFEST} $.change",
            records.subject.change,
            manifest.change,
        )
    if manifest.image != records.subject.image:
        yield _differs(
            "records-inconsistent",
            f"{layout.MANIFEST} $.image",
            records.subject.image,
            manifest.image,
        )


def plan_findings(plan: Plan) -> Iterator[Finding]:
    """Yield where a plan contradicts itself."""
    for cell_id, count in Counter(cell.cell_id for cell in plan.cells).items():
        if count > 1:
            yield _plan("$.cells", f"Expected unique cell ids, found {cell_id} {count} times.")
    slots = [boot.slot for boot in plan.boots]
    if slots != list(range(len(slots))):
        yield _plan("$.boots", "Expected slots numbered from 0 in order, found another order.")
    if plan.tier == "smoke" and plan.gates.claims_speed:
        yield _plan("$.gates.claims_speed", "Expected no speed claim in a smoke plan, found one.")
    names = [arm.name for arm in plan.arms]
    if plan.pairing == "paired" and names != ["baseline", "candidate"]:
        yield _plan(
            "$.arms",
            "Expected the arms baseline and candidate of a paired plan, in "
            f"this order, found {', '.join(names)}.",
        )
    if plan.pairing == "single" and len(names) != 1:
        yield _plan("$.arms", f"Expected one arm of a single plan, found {len(names)}.")
    for boot in plan.boots:
        if boot.arm not in names:
            yield _plan(f"$.boots[{boot.slot}]", f"Expected a planned arm, found {boot.arm}.")
    yield from (_plan(path, why) for path, why in block_problems(plan))
    yield from (_plan(path, why) for path, why in serving_problems(plan))
    yield from (_plan(path, why) for path, why in package_problems(plan))
    yield from _schema_findings(plan)


def _schema_findings(plan: Plan) -> Iterator[Finding]:
    for index, cell in enumerate(plan.cells):
        if not isinstance(cell, FeatureCell):
            continue
        where = f"$.cells[{index}].json_schema"
        if (cell.feature == "structured_output") != (cell.json_schema is not None):
            yield _plan(where, "Expected a schema for structured_output and for no other feature.")
            continue
        if cell.json_schema is None:
            continue
        problems = list(schema_problems(cell.json_schema))
        yield from (_plan(where, problem) for problem in problems)
        if problems:
            continue
        try:
            jsonschema.Draft202012Validator.check_schema(cell.json_schema)
        except jsonschema.SchemaError as error:
            yield _plan(
                where, f"Expected a valid JSON Schema, found: {ascii(error.message)[:120]}."
            )


def _plan(path: str, why: str) -> Finding:
    return Finding("records-inconsistent", f"{layout.PLAN} {path}", why, _HINT)


def _differs(code: FindingCode, where: str, expected: object, found: object) -> Finding:
    return Finding(code, where, f"Expected {expected}, found {found}.", _HINT)

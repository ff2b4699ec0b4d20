"""The verifier: decides from a bundle's files alone whether it is whole and says what it shows.

Pure. It trusts no derived number: the verdict is derived again from the raw records. It does not
know whether the records are true; for that see the signer, the nonce and repeated runs.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from k3bundle import layout
from k3bundle.bundle import RunRecords, parse_file, parse_records
from k3bundle.canonical import canonical_json, parse_strict, sha256_hex
from k3bundle.derive import derive
from k3bundle.dsse import Opened, open_envelope
from k3bundle.errors import BundleError
from k3bundle.finding import Finding, FindingCode
from k3bundle.finding_limit import at_most
from k3bundle.journal import index_journal
from k3bundle.journal_rules import (
    attempt_findings,
    boot_findings,
    cell_findings,
    earlier_findings,
    snapshot_findings,
)
from k3bundle.kernel_rules import kernel_findings
from k3bundle.machine_rules import machine_findings
from k3bundle.manifest import Manifest
from k3bundle.plan import TierName
from k3bundle.plan_rules import identity_findings, plan_findings
from k3bundle.policy import Policy, policy_findings
from k3bundle.request_rules import completeness_findings, request_findings
from k3bundle.secret_scan import secrets_in
from k3bundle.standard_gates import looser_than_standard
from k3bundle.verdict import Verdict
from k3bundle.verdict_diff import verdict_differences

__all__ = ["Report", "consistency_findings", "verify"]

_MANIFEST: Final = TypeAdapter[Manifest](Manifest)
_VERDICT: Final = TypeAdapter[Verdict](Verdict)
_HINT: Final = "Seal the run folder again with k3-eval; a bundle is never edited by hand."


@dataclass(frozen=True)
class Report:
    """What the verifier found."""

    findings: tuple[Finding, ...]
    """Every reason to refuse the bundle, sorted; empty when it is accepted."""
    verdict: Verdict | None
    """The verdict derived from the records; None when they cannot be judged."""
    manifest: Manifest | None
    """The manifest; None when it cannot be read."""
    signer_fingerprint: str | None
    """Fingerprint of the key whose signature verified; None when none did."""
    looser_than_standard: tuple[str, ...] = ()
    """In what the plan asks for less than its tier's standard; the verdict's limits say it too."""
    tier: TierName | None = None
    """Tier of the plan; None when it cannot be read."""

    @property
    def ok(self) -> bool:
        """Whether the bundle is accepted."""
        return not self.findings


def verify(files: Mapping[str, bytes], policy: Policy) -> Report:
    """Verify a bundle.

    Args:
        files: Path inside the bundle -> content, from any source, trusted in nothing.
        policy: What the reader demands beyond that.

    Returns:
        The report, with all findings at once. Never raises on bad bytes.
    """
    findings: list[Finding] = []
    manifest = parse_file(files, layout.MANIFEST, _MANIFEST, findings)
    # Hashing leaves the interpreter free, so it goes on while this thread looks for secrets.
    with ThreadPoolExecutor(1) as helper:
        hashed = helper.submit(lambda: list(_file_findings(files, manifest)))
        findings += _secret_findings(files)
        findings += hashed.result()
    records = _records(files, findings)
    stored = parse_file(files, layout.VERDICT, _VERDICT, findings)
    derived = None if records is None else _derived(records, manifest, findings)
    if derived is not None and stored is not None:
        findings += _verdict_findings(derived, stored)
    attestation = _attestation(files, policy, findings)
    findings += _statement_findings(attestation, files, manifest, stored)
    findings += policy_findings(
        policy,
        manifest=manifest,
        plan=records.plan if records else None,
        verdict=derived,
        signer_fingerprint=attestation.signer_fingerprint,
    )
    return Report(
        findings=tuple(sorted(set(findings))),
        verdict=derived,
        manifest=manifest,
        signer_fingerprint=attestation.signer_fingerprint,
        looser_than_standard=looser_than_standard(records.plan) if records else (),
        tier=records.plan.tier if records else None,
    )


def consistency_findings(records: RunRecords, manifest: Manifest | None) -> list[Finding]:
    """Compare records with each other and with the manifest.

    Args:
        records: Parsed records.
        manifest: The manifest; None before sealing.

    Returns:
        Findings, at most some dozens of each kind.
    """
    journal = index_journal(records)
    groups: tuple[tuple[str, Iterator[Finding]], ...] = (
        (layout.MANIFEST, identity_findings(records, manifest)),
        (layout.PLAN, plan_findings(records.plan)),
        (layout.ATTEMPTS, attempt_findings(records)),
        (layout.EARLIER, earlier_findings(records)),
        (layout.BOOTS, boot_findings(records, journal)),
        (layout.CELLS, cell_findings(records, journal)),
        (layout.COVERAGE, snapshot_findings(records, journal)),
        (layout.TELEMETRY, machine_findings(records, journal)),
        (layout.KERNELS, kernel_findings(records, journal)),
        (layout.REQUESTS, request_findings(records, journal)),
        (layout.CELLS, completeness_findings(records, journal)),
    )
    return [
        finding
        for where, group in groups
        for finding in at_most(group, code="records-inconsistent", where=where)
    ]


def _derived(
    records: RunRecords, manifest: Manifest | None, findings: list[Finding]
) -> Verdict | None:
    """The verdict; None with a new finding where the records do not give one."""
    try:
        inconsistent = consistency_findings(records, manifest)
        findings += inconsistent
        return None if inconsistent else derive(records)
    except Exception as error:
        # Whoever verifies bundles of strangers must refuse what nobody thought of, and go on.
        why = f"Expected records that give a verdict, found that judging ends in {_named(error)}."
        hint = "Report this bundle: the verifier should say what is wrong with it."
        findings.append(Finding("records-inconsistent", layout.VERDICT, why, hint))
        return None


def _named(error: Exception) -> str:
    return ascii(f"{type(error).__name__}: {error}")[1:-1][:200]


def _records(files: Mapping[str, bytes], findings: list[Finding]) -> RunRecords | None:
    try:
        return parse_records(files)
    except BundleError as error:
        findings.extend(error.findings)
        return None


def _file_findings(files: Mapping[str, bytes], manifest: Manifest | None) -> Iterator[Finding]:
    listed = {file.path: file for file in manifest.files} if manifest else {}
    if manifest is not None:
        if canonical_json(manifest) != files[layout.MANIFEST]:
            yield _finding(
                "record-invalid",
                layout.MANIFEST,
                "Expected canonical JSON, in which "
                "one manifest has one digest; found the same content written otherwise.",
            )
        paths = [file.path for file in manifest.files]
        if paths != sorted(set(paths)):
            why = "Expected every file once, sorted by path, found another order."
            yield _finding("record-invalid", f"{layout.MANIFEST} $.files", why)
        for name in layout.REQUIRED_FILES:
            if name not in listed:
                why = f"Expected the manifest to list {name}, found no entry."
                yield _finding("file-missing", layout.MANIFEST, why)
    for path, file in listed.items():
        where = _shown(path)
        content = files.get(path)
        if content is None:
            yield _finding("file-missing", where, f"Expected the listed file {where}, found none.")
        elif len(content) != file.size_bytes:
            why = f"Expected {file.size_bytes} bytes, found {len(content)}."
            yield _finding("file-digest", where, why)
        elif sha256_hex(content) != file.sha256:
            why = f"Expected SHA-256 {file.sha256}, found {sha256_hex(content)}."
            yield _finding("file-digest", where, why)
    for path in sorted(files.keys() | listed.keys()):
        yield from _place_findings(path, listed=path in listed, judged=manifest is not None)


def _place_findings(path: str, *, listed: bool, judged: bool) -> Iterator[Finding]:
    """A file has one of the fixed names or is a log, and the manifest lists it."""
    where = _shown(path)
    outside = path in {layout.MANIFEST, layout.ATTESTATION}
    named = path in layout.REQUIRED_FILES or path in layout.OPTIONAL_FILES
    known = named or path.startswith(layout.LOG_PREFIX)
    if not outside and not known:
        yield _finding("file-unlisted", where, "Expected only the files of the format and logs/.")
    elif judged and outside and listed:
        yield _finding("file-unlisted", where, "Expected the manifest not to list this file.")
    elif judged and not outside and not listed:
        yield _finding("file-unlisted", where, "Expected the manifest to list this file.")


def _secret_findings(files: Mapping[str, bytes]) -> Iterator[Finding]:
    for path, content in sorted(files.items()):
        where = _shown(path)
        found = (
            Finding(
                "secret-found",
                f"{where} line {line}",
                f"Expected no secrets, found what looks like a {kind}.",
                "Revoke it, remove it where the run got it from, and run again.",
            )
            for kind, line in secrets_in(content)
        )
        yield from at_most(found, code="secret-found", where=where)


def _verdict_findings(derived: Verdict, stored: Verdict) -> list[Finding]:
    differences = verdict_differences(
        parse_strict(canonical_json(derived)), parse_strict(canonical_json(stored))
    )
    return at_most(differences, code="verdict-mismatch", where=layout.VERDICT)


def _attestation(files: Mapping[str, bytes], policy: Policy, findings: list[Finding]) -> Opened:
    data = files.get(layout.ATTESTATION)
    if data is None:
        if policy.require_attestation:
            why = f"Expected {layout.ATTESTATION}, found none: nobody vouches for the bundle."
            hint = "Sign with an SSH key: k3-eval run --key FILE"
            findings.append(Finding("attestation-missing", layout.ATTESTATION, why, hint))
        return Opened(None, None, ())
    opened = open_envelope(data)
    findings.extend(opened.findings)
    return opened


def _statement_findings(
    attestation: Opened,
    files: Mapping[str, bytes],
    manifest: Manifest | None,
    stored: Verdict | None,
) -> Iterator[Finding]:
    statement = attestation.statement
    if statement is None:
        return
    digest = sha256_hex(files.get(layout.MANIFEST, b""))
    named = statement.subject[0].digest.get("sha256")
    if named != digest:
        yield _differs("statement-mismatch", "subject[0].digest", digest, named)
    predicate = statement.predicate
    if manifest is not None:
        if predicate.change != manifest.change:
            yield _differs("change-mismatch", "predicate.change", manifest.change, predicate.change)
        if predicate.plan_sha256 != manifest.run.plan_sha256:
            yield _differs(
                "plan-digest-mismatch",
                "predicate.plan_sha256",
                manifest.run.plan_sha256,
                predicate.plan_sha256,
            )
        if predicate.nonce != manifest.run.nonce:
            yield _differs("nonce-mismatch", "predicate.nonce", manifest.run.nonce, predicate.nonce)
    if stored is not None and predicate.verdict != stored.status:
        yield _differs("statement-mismatch", "predicate.verdict", stored.status, predicate.verdict)


def _differs(code: FindingCode, path: str, expected: object, found: object) -> Finding:
    where = f"{layout.ATTESTATION} payload $.{path}"
    return _finding(code, where, f"Expected {expected}, found {found}.")


def _shown(path: str) -> str:
    return ascii(path)[1:-1][:120]


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)

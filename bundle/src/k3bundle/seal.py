"""Sealing: turns the files of a run folder into a bundle that can be verified."""

from collections.abc import Mapping

from k3bundle import layout
from k3bundle.bundle import RunRecords, parse_records
from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.derive import derive
from k3bundle.dsse import sign_statement
from k3bundle.errors import BundleError
from k3bundle.manifest import (
    BundleFile,
    EvaluationPredicate,
    Manifest,
    Statement,
    StatementSubject,
)
from k3bundle.policy import Policy
from k3bundle.signer import Signer
from k3bundle.verdict import Verdict
from k3bundle.verify import verify

__all__ = ["assemble", "bundle_sha256", "seal"]


def seal(files: Mapping[str, bytes], signer: Signer, sealed_at_utc: str) -> Mapping[str, bytes]:
    """Derive the verdict of a run and seal its files.

    Args:
        files: The files of the run folder: path -> content. A verdict, manifest or attestation
            among them is replaced.
        signer: Key that vouches for the bundle.
        sealed_at_utc: RFC 3339 time in UTC, a label.

    Returns:
        All files of the bundle. It verifies with the empty policy.

    Raises:
        BundleError: Records are missing, malformed or contradict each other, with all findings.
    """
    raw = {
        path: content
        for path, content in files.items()
        if path not in {layout.VERDICT, layout.MANIFEST, layout.ATTESTATION}
    }
    records = parse_records(raw)
    sealed = assemble(raw, records, derive(records), signer, sealed_at_utc)
    report = verify(sealed, Policy())
    if not report.ok:
        raise BundleError(report.findings)
    return sealed


def assemble(
    files: Mapping[str, bytes],
    records: RunRecords,
    verdict: Verdict,
    signer: Signer,
    sealed_at_utc: str,
) -> Mapping[str, bytes]:
    """Add verdict, manifest and attestation without judging anything; tests make bad bundles so.

    Args:
        files: The files of the run folder: path -> content.
        records: Where run, change and image of the manifest come from.
        verdict: The verdict to store.
        signer: Key that signs.
        sealed_at_utc: RFC 3339 time in UTC.

    Returns:
        All files of the bundle.
    """
    complete = {**files, layout.VERDICT: canonical_json(verdict)}
    manifest = Manifest(
        run=records.run,
        change=records.subject.change,
        image=records.subject.image,
        sealed_at_utc=sealed_at_utc,
        files=tuple(
            BundleFile(path=path, size_bytes=len(content), sha256=sha256_hex(content))
            for path, content in sorted(complete.items())
        ),
    )
    complete[layout.MANIFEST] = canonical_json(manifest)
    statement = Statement.model_validate(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": (
                StatementSubject(name="manifest.json", digest={"sha256": bundle_sha256(complete)}),
            ),
            "predicateType": "urn:k3-eval:evaluation:v1",
            "predicate": EvaluationPredicate(
                change=manifest.change,
                plan_sha256=manifest.run.plan_sha256,
                nonce=manifest.run.nonce,
                verdict=verdict.status,
            ),
        }
    )
    complete[layout.ATTESTATION] = sign_statement(statement, signer)
    return complete


def bundle_sha256(files: Mapping[str, bytes]) -> str:
    """The digest of a bundle: SHA-256 of its manifest, which names everything else."""
    return sha256_hex(files[layout.MANIFEST])

"""Archive in, findings or document out. Runs only inside the verifier's process."""

from collections.abc import Mapping
from pathlib import Path

from k3bundle.archive import read_archive
from k3bundle.bundle import parse_records
from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256
from k3bundle.verify import Report, verify
from k3server.document import SubmissionDocument

__all__ = ["judge"]


def judge(archive: Path, policy: Policy) -> tuple[tuple[Finding, ...], SubmissionDocument | None]:
    """Verify an archive against a policy.

    Returns:
        All findings and None, or no findings and the document to index.
    """
    try:
        files = read_archive(archive)
        report = verify(files, policy)
    except BundleError as error:
        return error.findings, None
    if report.findings:
        return report.findings, None
    return (), _document(files, report)


def _document(files: Mapping[str, bytes], report: Report) -> SubmissionDocument:
    if report.manifest is None or report.verdict is None or report.signer_fingerprint is None:
        raise LookupError("The verifier found nothing wrong and yet returned no records.")
    records = parse_records(files)
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

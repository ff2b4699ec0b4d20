"""Archive in, findings or document out. Runs only inside the verifier's process."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from k3bundle.archive import DEFAULT_LIMITS, ArchiveLimits, read_archive
from k3bundle.bundle import parse_records
from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256
from k3bundle.secret_scan import secrets_in
from k3bundle.verify import Report, verify
from k3server.document import SubmissionDocument

__all__ = ["judge", "secret_findings"]

_MOST_SECRETS: Final = 50


def judge(
    archive: Path, policy: Policy, limits: ArchiveLimits = DEFAULT_LIMITS
) -> tuple[tuple[Finding, ...], SubmissionDocument | None]:
    """Verify an archive against a policy, within limits of size.

    Returns:
        All findings and None, or no findings and the document to index.
    """
    try:
        files = read_archive(archive, limits)
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


def secret_findings(archive: Path, limits: ArchiveLimits = DEFAULT_LIMITS) -> tuple[Finding, ...]:
    """Secrets in an archive, by the patterns of this version; nothing else is judged.

    Returns:
        At most 50 findings; those of the archive itself where it cannot be read.
    """
    try:
        files = read_archive(archive, limits)
    except BundleError as error:
        return error.findings
    found = (
        Finding(
            "secret-found",
            f"{path} line {line}",
            f"Expected no secrets, found what looks like a {kind}.",
            "Revoke it where it comes from; the submission is not shown any more.",
        )
        for path, content in sorted(files.items())
        for kind, line in secrets_in(content)
    )
    return tuple(islice(found, _MOST_SECRETS))

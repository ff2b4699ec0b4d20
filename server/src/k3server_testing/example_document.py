"""Documents as the verifier's process makes them, without a bundle behind them."""

from typing import Any, Final

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.manifest import BundleFile, Manifest
from k3bundle.verdict import Verdict
from k3bundle_testing import good_records
from k3server.document import SubmissionDocument
from k3server_testing.example_verdict import example_verdict

__all__ = ["EXAMPLE_FINGERPRINT", "example_document"]

EXAMPLE_FINGERPRINT: Final = "SHA256:" + "A" * 43


def example_document(verdict: Verdict | None = None, **changes: Any) -> SubmissionDocument:
    """A document of the example run.

    Args:
        verdict: What was derived; a PASS when left out.
        **changes: Fields of `k3bundle_testing.Variation`.

    Returns:
        The document; its bundle digest follows from its manifest.
    """
    records = good_records(**changes)
    shown = verdict or example_verdict(resumed=changes.get("resumed", False))
    manifest = Manifest(
        run=records.run,
        change=records.subject.change,
        image=records.subject.image,
        sealed_at_utc="2026-01-02T04:00:00Z",
        files=(
            BundleFile(path="plan.json", size_bytes=4096, sha256="cd" * 32),
            BundleFile(
                path="verdict.json", size_bytes=9000, sha256=sha256_hex(canonical_json(shown))
            ),
        ),
    )
    return SubmissionDocument(
        bundle_sha256=sha256_hex(canonical_json(manifest)),
        signer_fingerprint=EXAMPLE_FINGERPRINT,
        manifest=manifest,
        plan=records.plan,
        subject=records.subject,
        environment=records.environment,
        attempts=records.attempts,
        boots=records.boots,
        scrub=records.scrub,
        verdict=shown,
    )

"""Everything public as two flat tables: submissions and their numbers. Pure."""

from collections.abc import Iterator

from k3bundle.verdict import CellSkipped, ServingEvidence
from k3server.submission import Submission

__all__ = ["NUMBER_COLUMNS", "SUBMISSION_COLUMNS", "Value", "number_rows", "submission_row"]

Value = str | int | float | bool | None
"""What a field of a row can be."""

SUBMISSION_COLUMNS: dict[str, type] = {
    "submission_id": str,
    "blob_sha256": str,
    "repository": str,
    "pull_request": int,
    "commit_sha": str,
    "tier": str,
    "subject": str,
    "plan_sha256": str,
    "verdict": str,
    "sentence": str,
    "isolated": str,
    "bounded": str,
    "correct": str,
    "faster": str,
    "resumed": bool,
    "trust": str,
    "nonce": str,
    "signer": str,
    "engine": str,
    "processor": str,
    "received_at_utc": str,
}
"""Columns of the table of submissions with their types."""

NUMBER_COLUMNS: dict[str, type] = {
    "submission_id": str,
    "cell_id": str,
    "name": str,
    "value": float,
    "lower": float,
    "upper": float,
    "confidence": float,
    "pairs": int,
}
"""Columns of the table of numbers; a headline number has no bounds and may have no cell."""


def submission_row(submission: Submission) -> dict[str, Value]:
    """A submission as one row."""
    row, document = submission.row, submission.document
    return {
        "submission_id": row.bundle_sha256,
        "blob_sha256": row.blob_sha256,
        "repository": row.change.repository,
        "pull_request": row.change.pull_request,
        "commit_sha": row.change.commit_sha,
        "tier": row.summary.tier,
        "subject": row.summary.subject,
        "plan_sha256": document.manifest.run.plan_sha256,
        "verdict": row.summary.status,
        "sentence": row.summary.sentence,
        **{claim.name: claim.status for claim in row.summary.claims},
        "resumed": row.summary.resumed,
        "trust": row.trust,
        "nonce": row.nonce_standing,
        "signer": document.signer_fingerprint,
        "engine": row.summary.engine,
        "processor": row.summary.processor,
        "received_at_utc": row.received_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def number_rows(submission: Submission) -> Iterator[dict[str, Value]]:
    """The headline numbers and the ratios of a submission, a row each."""
    digest = submission.row.bundle_sha256
    nothing: dict[str, Value] = {"lower": None, "upper": None, "confidence": None, "pairs": None}
    for number in submission.document.verdict.headline:
        yield {
            "submission_id": digest,
            "cell_id": number.cell_id,
            "name": number.name,
            "value": number.value,
            **nothing,
        }
    for cell in submission.document.verdict.cells:
        if isinstance(cell, CellSkipped) or not isinstance(cell.evidence, ServingEvidence):
            continue
        for interval in cell.evidence.intervals:
            yield {
                "submission_id": digest,
                "cell_id": cell.cell_id,
                "name": f"{interval.metric}_ratio",
                "value": interval.ratio,
                "lower": interval.lower,
                "upper": interval.upper,
                "confidence": interval.confidence,
                "pairs": interval.pairs,
            }

"""Findings of the verifier: what is wrong, where, and what to do."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "FindingCode"]

FindingCode = Literal[
    "archive-framing",
    "archive-too-large",
    "attestation-missing",
    "attestation-malformed",
    "boot-out-of-plan",
    "cell-out-of-plan",
    "change-mismatch",
    "file-digest",
    "file-missing",
    "file-unlisted",
    "json-malformed",
    "nonce-mismatch",
    "number-mismatch",
    "plan-digest-mismatch",
    "policy-tier",
    "policy-verdict",
    "record-invalid",
    "records-inconsistent",
    "schema-version",
    "secret-found",
    "signature-invalid",
    "signer-not-allowed",
    "statement-mismatch",
    "verdict-mismatch",
]
"""Stable names; each has a section in bundle/README.md."""


@dataclass(frozen=True, order=True)
class Finding:
    """One reason why a bundle is refused."""

    code: FindingCode
    """Stable name."""
    where: str
    """File, and record or field inside it where known."""
    why: str
    """What was expected and what was found, in a sentence."""
    hint: str
    """The next step, in a sentence."""

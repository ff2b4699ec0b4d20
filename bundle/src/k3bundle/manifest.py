"""The root record of a bundle and the statement that is signed."""

from typing import Literal

from pydantic import Field

from k3bundle.record import Count, Record, Sha256, UtcTimestamp
from k3bundle.run import RunIdentity
from k3bundle.subject import ChangeUnderTest, ImageFacts

__all__ = ["BundleFile", "EvaluationPredicate", "Manifest", "Statement", "StatementSubject"]


class BundleFile(Record):
    """One file of the bundle."""

    path: str = Field(max_length=100)
    """Path inside the bundle."""
    size_bytes: Count
    """Size in bytes."""
    sha256: Sha256
    """Digest of the content."""


class Manifest(Record):
    """Root record: names every other file. Its own digest is the digest of the bundle."""

    schema_version: Literal["1"] = "1"
    """Record format version."""
    run: RunIdentity
    """The run, with nonce and plan digest."""
    change: ChangeUnderTest
    """What the evidence is for."""
    image: ImageFacts
    """The image the run happened in."""
    sealed_at_utc: UtcTimestamp
    """When the bundle was sealed."""
    files: tuple[BundleFile, ...]
    """Every file except the manifest and the attestation, sorted by path."""


class StatementSubject(Record):
    """In-toto subject: a named digest."""

    name: Literal["manifest.json"]
    """File that the digest is of."""
    digest: dict[Literal["sha256"], Sha256]
    """Digest by algorithm."""


class EvaluationPredicate(Record):
    """What the signer states."""

    change: ChangeUnderTest
    """The change."""
    plan_sha256: Sha256
    """Digest of the plan."""
    nonce: Sha256
    """Nonce of the run."""
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]
    """Verdict status."""


class Statement(Record):
    """In-toto Statement v1, the payload of the DSSE envelope."""

    statement_type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    """Type of the statement."""
    subject: tuple[StatementSubject, ...] = Field(min_length=1, max_length=1)
    """The manifest."""
    predicate_type: Literal["urn:k3-eval:evaluation:v1"] = Field(alias="predicateType")
    """Type of the predicate."""
    predicate: EvaluationPredicate
    """What is stated."""

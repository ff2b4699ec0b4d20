"""What a named defect is, and the tools that plant one without leaving other traces."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from k3bundle import layout
from k3bundle.bundle import RunRecords, parse_records
from k3bundle.canonical import canonical_json, parse_strict
from k3bundle.derive import derive
from k3bundle.dsse import open_envelope, sign_statement
from k3bundle.errors import BundleError
from k3bundle.finding import FindingCode
from k3bundle.manifest import Statement
from k3bundle.policy import Policy
from k3bundle.record import Record
from k3bundle.seal import assemble, bundle_sha256
from k3bundle.verdict import Verdict
from k3bundle_testing.example_run import files_of, good_records
from k3bundle_testing.sealing import SEALED_AT_UTC
from k3bundle_testing.signers import example_signer

__all__ = [
    "Defect",
    "Files",
    "changed",
    "edited",
    "good_files",
    "good_verdict",
    "resealed",
    "resealed_records",
    "resigned",
    "statement_of",
]

Files = Mapping[str, bytes]
AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Defect:
    """One way in which a bundle can be bad."""

    name: str
    """What is wrong, as part of a file name."""
    code: FindingCode
    """Finding that must be among those of the verifier."""
    where: str
    """Start of the place that this finding must name."""
    make: Callable[[], Files | bytes]
    """Makes the files of the bad bundle, or the bytes of a bad bundle file."""
    policy: Policy = field(default_factory=Policy)
    """Policy under which it must be refused."""


@cache
def good_files() -> Files:
    """Files of the good run folder; never change them in place."""
    return files_of(good_records())


@cache
def good_verdict() -> Verdict:
    """Verdict of the good run."""
    return derive(good_records())


def resealed(raw: Files, verdict: Verdict | None = None) -> Files:
    """Seal raw files without judging them: digests and signature are right, whatever they hold.

    Args:
        raw: Files of a run folder.
        verdict: Verdict to store; None stores the derived one, or that of the good run where
            the files cannot be parsed.

    Returns:
        All files of the bundle.
    """
    try:
        records = parse_records(raw)
    except BundleError:
        return assemble(
            raw, good_records(), verdict or good_verdict(), example_signer(), SEALED_AT_UTC
        )
    return assemble(raw, records, verdict or derive(records), example_signer(), SEALED_AT_UTC)


def resealed_records(records: RunRecords, verdict: Verdict | None = None) -> Files:
    """Seal records without judging them."""
    return resealed(files_of(records), verdict)


def resigned(files: Files, manifest: Files | None = None, **statement: Any) -> Files:
    """Sign a bundle again after an edit.

    Args:
        files: Files of a bundle.
        manifest: Fields of the manifest to replace: name -> JSON.
        **statement: Fields of the statement's predicate to replace.

    Returns:
        The bundle with the edited manifest and a signature over it.
    """
    edited_files = dict(files)
    if manifest is not None:
        plain = parse_strict(files[layout.MANIFEST])
        assert isinstance(plain, dict)  # noqa: S101
        plain.update({name: parse_strict(text) for name, text in manifest.items()})
        edited_files[layout.MANIFEST] = canonical_json(plain)
    old = statement_of(files)
    subject = changed(old.subject[0], digest={"sha256": bundle_sha256(edited_files)})
    predicate = changed(old.predicate, **statement)
    new = changed(old, subject=(subject,), predicate=predicate)
    edited_files[layout.ATTESTATION] = sign_statement(new, example_signer())
    return edited_files


def statement_of(files: Files) -> Statement:
    """The statement that a bundle's attestation holds."""
    statement = open_envelope(files[layout.ATTESTATION]).statement
    if statement is None:
        raise ValueError("Expected an attestation with a statement, found none in it.")
    return statement


def changed(record: AnyRecord, **fields: Any) -> AnyRecord:
    """Copy a record with other fields, without validating them."""
    return record.model_copy(update=fields)


def edited(files: Files, name: str, old: bytes, new: bytes) -> dict[str, bytes]:
    """Replace the first occurrence of bytes in one file.

    Raises:
        ValueError: The bytes are not there, so that the defect would not be planted.
    """
    if old not in files[name]:
        raise ValueError(f"Expected {old!r} in {name}, found it nowhere.")
    return {**files, name: files[name].replace(old, new, 1)}

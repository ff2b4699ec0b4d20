"""DSSE envelopes: an in-toto statement with one SSH signature over it."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from k3bundle import layout
from k3bundle.bundle import parse_file
from k3bundle.canonical import canonical_json
from k3bundle.finding import Finding, FindingCode
from k3bundle.manifest import Statement
from k3bundle.record import Record
from k3bundle.signer import Signer
from k3bundle.sshsig import SignatureError, fingerprint, verify_sshsig

__all__ = ["Envelope", "EnvelopeSignature", "Opened", "open_envelope", "pae", "sign_statement"]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_HINT: Final = "Seal the run again with k3-eval; an attestation is never edited by hand."
Base64Text = Annotated[str, Field(max_length=1 << 16)]


class EnvelopeSignature(Record):
    """One signature of the envelope."""

    keyid: str = Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")
    """Fingerprint of the signing key, as `ssh-keygen -l` prints it."""
    sig: Base64Text
    """Base64 of the SSHSIG blob."""


class Envelope(Record):
    """`attestation.dsse.json`."""

    payload: Base64Text
    """Base64 of the statement's JSON."""
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    """Type of the payload."""
    signatures: tuple[EnvelopeSignature, ...] = Field(min_length=1, max_length=1)
    """The signature."""


@dataclass(frozen=True)
class Opened:
    """What an envelope says, and what is wrong with it."""

    statement: Statement | None
    """The statement, whoever signed it; None when it cannot be read."""
    signer_fingerprint: str | None
    """Fingerprint of the key whose signature verified; None when none did."""
    findings: tuple[Finding, ...]


_ENVELOPE: Final = TypeAdapter[Envelope](Envelope)
_STATEMENT: Final = TypeAdapter[Statement](Statement)


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_statement(statement: Statement, signer: Signer) -> bytes:
    """Sign a statement.

    Returns:
        The envelope as canonical JSON.
    """
    payload = canonical_json(statement)
    signature = EnvelopeSignature(
        keyid=fingerprint(signer.public_key),
        sig=base64.b64encode(signer.sign(pae(payload))).decode(),
    )
    envelope = Envelope(
        payload=base64.b64encode(payload).decode(),
        payloadType="application/vnd.in-toto+json",
        signatures=(signature,),
    )
    return canonical_json(envelope)


def open_envelope(data: bytes) -> Opened:
    """Read an envelope and verify its signature.

    Args:
        data: Content of `attestation.dsse.json`.

    Returns:
        The statement, the signer and all findings; never raises on bad bytes.
    """
    found: list[Finding] = []
    envelope = parse_file({layout.ATTESTATION: data}, layout.ATTESTATION, _ENVELOPE, found)
    if envelope is None:
        return Opened(None, None, tuple(_malformed(f.where, f.why) for f in found))
    try:
        payload = _decode(envelope.payload, "$.payload")
        signature = _decode(envelope.signatures[0].sig, "$.signatures[0].sig")
    except SignatureError as error:
        return Opened(None, None, (_malformed(layout.ATTESTATION, str(error)),))
    where = layout.ATTESTATION + " payload"
    statement = parse_file({where: payload}, where, _STATEMENT, found)
    findings = [_malformed(f.where, f.why) for f in found]
    try:
        signer = fingerprint(verify_sshsig(signature, pae(payload)))
    except SignatureError as error:
        invalid = _finding("signature-invalid", layout.ATTESTATION, str(error))
        return Opened(statement, None, (*findings, invalid))
    keyid = envelope.signatures[0].keyid
    if keyid != signer:
        why = f"Expected the key id {signer} of the key that signed, found {keyid}."
        findings.append(_malformed(f"{layout.ATTESTATION} $.signatures[0].keyid", why))
    return Opened(statement, signer, tuple(findings))


def _decode(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if base64.b64encode(data).decode() != text:
        raise SignatureError(f"Expected canonical base64 at {where}, found other text.")
    return data


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)


def _malformed(where: str, why: str) -> Finding:
    return _finding("attestation-malformed", where, why)

"""SSH signatures (OpenSSH's PROTOCOL.sshsig): build and verify the blob that ssh-keygen writes.

Verifies Ed25519, ECDSA P-256 and RSA with SHA-2. Every byte has one meaning here: unknown types,
other namespaces, non-empty reserved fields and trailing bytes are refused.
"""

import base64
import binascii
import hashlib
import struct
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from k3bundle.ssh_wire import SignatureError, WireReader, wire_string

__all__ = [
    "NAMESPACE",
    "SignatureError",
    "armor",
    "dearmor",
    "fingerprint",
    "key_blob",
    "public_key_line",
    "signed_data",
    "sshsig_blob",
    "sshsig_of",
    "verify_sshsig",
]

NAMESPACE: Final = "k3-eval@v1"
"""Namespace of our signatures: one made for another purpose does not verify here."""

_MAGIC: Final = b"SSHSIG"
_VERSION: Final = 1
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_LARGEST_BLOB: Final = 8192
_SHORTEST_RSA_BITS: Final = 2048
_LONGEST_RSA_BITS: Final = 8192
_MESSAGE_HASHES: Final = ("sha256", "sha512")
_ED25519: Final = b"ssh-ed25519"
_ECDSA: Final = b"ecdsa-sha2-nistp256"
_RSA: Final = b"ssh-rsa"
_RSA_HASHES: Final[dict[bytes, type[hashes.SHA256] | type[hashes.SHA512]]] = {
    b"rsa-sha2-256": hashes.SHA256,
    b"rsa-sha2-512": hashes.SHA512,
}

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


def verify_sshsig(signature: bytes, message: bytes, namespace: str = NAMESPACE) -> str:
    """Verify an SSHSIG blob.

    Args:
        signature: The blob (what an armored `.sig` file holds in base64).
        message: The bytes that were signed.
        namespace: Namespace that the signature must be for.

    Returns:
        The signer's public key as an OpenSSH line without a comment. Who that is, is the
        caller's question.

    Raises:
        SignatureError: The signature does not verify, with the reason in a sentence.
    """
    if len(signature) > _LARGEST_BLOB:
        raise SignatureError(f"Expected at most {_LARGEST_BLOB} bytes of signature, found more.")
    reader = WireReader(signature)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise SignatureError("Expected an SSHSIG blob, found other bytes.")
    version = reader.uint32()
    if version != _VERSION:
        raise SignatureError(f"Expected SSHSIG version {_VERSION}, found {version}.")
    key_blob, found_namespace, reserved = reader.string(), reader.string(), reader.string()
    hash_name, inner = reader.string(), reader.string()
    reader.end()
    if found_namespace != namespace.encode():
        raise SignatureError(
            f"Expected a signature for {namespace}, found one for {ascii(found_namespace)[1:60]}."
        )
    if reserved:
        raise SignatureError("Expected an empty reserved field, found bytes in it.")
    if hash_name not in {name.encode() for name in _MESSAGE_HASHES}:
        raise SignatureError("Expected the hash sha256 or sha512, found another.")
    key = _load_key(key_blob)
    _verify_inner(key, inner, signed_data(message, namespace, hash_name.decode()))
    return _line(key)


def signed_data(message: bytes, namespace: str = NAMESPACE, hash_name: str = "sha512") -> bytes:
    """The bytes that the key itself signs for a message."""
    digest = hashlib.new(hash_name, message).digest()
    fields = (namespace.encode(), b"", hash_name.encode(), digest)
    return _MAGIC + b"".join(wire_string(field) for field in fields)


def sshsig_blob(public_key: str, raw_signature: bytes, namespace: str = NAMESPACE) -> bytes:
    """Wrap a raw Ed25519 signature over `signed_data(message, namespace)`.

    Args:
        public_key: OpenSSH line of an Ed25519 key.
        raw_signature: 64 bytes.
        namespace: Namespace that was signed.

    Returns:
        The SSHSIG blob.
    """
    inner = wire_string(_ED25519) + wire_string(raw_signature)
    return sshsig_of(public_key, inner, namespace)


def sshsig_of(public_key: str, inner: bytes, namespace: str = NAMESPACE) -> bytes:
    """Wrap what a key signed over `signed_data(message, namespace)`.

    Args:
        public_key: OpenSSH line of the key.
        inner: Kind of the signature and the signature, as SSH fields: what an agent answers.
        namespace: Namespace that was signed.

    Returns:
        The SSHSIG blob.
    """
    fields = (key_blob(public_key), namespace.encode(), b"", b"sha512", inner)
    return _MAGIC + struct.pack(">I", _VERSION) + b"".join(wire_string(field) for field in fields)


def public_key_line(text: str) -> str:
    """Normalise an OpenSSH public key: check it, and drop its comment.

    Raises:
        SignatureError: It is not a public key of a kind that is verified here.
    """
    return _line(_load_key(key_blob(text)))


def fingerprint(public_key: str) -> str:
    """The `SHA256:...` fingerprint of an OpenSSH public key, as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(key_blob(public_key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def armor(signature: bytes) -> str:
    """Write a blob as the text that `ssh-keygen -Y sign` writes."""
    text = base64.b64encode(signature).decode()
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def dearmor(text: str) -> bytes:
    """Read the text that `ssh-keygen -Y sign` writes.

    Raises:
        SignatureError: It is not an armored SSH signature.
    """
    lines = text.strip().splitlines()
    if len(lines) < len((_BEGIN, "", _END)) or lines[0] != _BEGIN or lines[-1] != _END:
        raise SignatureError(f"Expected text from {_BEGIN} to {_END}, found other text.")
    try:
        return base64.b64decode("".join(lines[1:-1]), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureError("Expected base64 in the signature, found other text.") from None


def key_blob(public_key: str) -> bytes:
    """The bytes of an OpenSSH public key line.

    Raises:
        SignatureError: It is no such line.
    """
    parts = public_key.split(maxsplit=2)
    try:
        return base64.b64decode(parts[1], validate=True)
    except (IndexError, binascii.Error, ValueError):
        raise SignatureError("Expected an OpenSSH public key line, found other text.") from None


def _load_key(blob: bytes) -> PublicKey:
    name = WireReader(blob).string()
    if name not in {_ED25519, _ECDSA, _RSA}:
        raise SignatureError(
            "Expected a key of type ssh-ed25519, ecdsa-sha2-nistp256 or ssh-rsa, found "
            f"{ascii(name)[1:60]}."
        )
    try:
        key = load_ssh_public_key(name + b" " + base64.b64encode(blob))
    except (ValueError, NotImplementedError, UnsupportedAlgorithm) as error:
        raise SignatureError("Expected a valid public key, found a malformed one.") from error
    if not isinstance(key, PublicKey) or key_blob(_line(key)) != blob:
        raise SignatureError("Expected a public key in its one encoding, found another.")
    bits = key.key_size if isinstance(key, rsa.RSAPublicKey) else _SHORTEST_RSA_BITS
    if not _SHORTEST_RSA_BITS <= bits <= _LONGEST_RSA_BITS:
        raise SignatureError(
            f"Expected an RSA key of {_SHORTEST_RSA_BITS} to {_LONGEST_RSA_BITS} bits, found "
            f"{bits}."
        )
    return key


def _line(key: PublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _verify_inner(key: PublicKey, inner: bytes, data: bytes) -> None:
    reader = WireReader(inner)
    kind, raw = reader.string(), reader.string()
    reader.end()
    try:
        if isinstance(key, ed25519.Ed25519PublicKey) and kind == _ED25519:
            key.verify(raw, data)
        elif isinstance(key, ec.EllipticCurvePublicKey) and kind == _ECDSA:
            numbers = WireReader(raw)
            der = utils.encode_dss_signature(numbers.mpint(), numbers.mpint())
            numbers.end()
            key.verify(der, data, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey) and kind in _RSA_HASHES:
            key.verify(raw, data, padding.PKCS1v15(), _RSA_HASHES[kind]())
        else:
            raise SignatureError(
                f"Expected a signature that fits its key, found {ascii(kind)[1:60]}."
            )
    except InvalidSignature:
        raise SignatureError("Expected the signature of these bytes, found another.") from None

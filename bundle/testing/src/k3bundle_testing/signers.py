"""Signers for tests. Their keys come from public sentences, so nobody may trust them."""

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from k3bundle.sign import Ed25519Signer
from k3bundle.sshsig import fingerprint

__all__ = ["example_signer", "other_signer", "signer_fingerprint"]


def example_signer() -> Ed25519Signer:
    """The signer of good bundles; the same key every time."""
    return _signer("k3-eval example key, known to everybody")


def other_signer() -> Ed25519Signer:
    """Somebody else."""
    return _signer("k3-eval other example key, known to everybody")


def signer_fingerprint() -> str:
    """Fingerprint of `example_signer`."""
    return fingerprint(example_signer().public_key)


def _signer(sentence: str) -> Ed25519Signer:
    seed = hashlib.sha256(sentence.encode()).digest()
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(seed))

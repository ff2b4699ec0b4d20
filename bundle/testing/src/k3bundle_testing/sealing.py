"""Signed bundles for tests. The key is derived from a public sentence, so nobody may trust it."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from k3bundle.archive import archive_bytes
from k3bundle.seal import seal
from k3bundle.sign import Ed25519Signer
from k3bundle.sshsig import fingerprint
from k3bundle_testing.example_run import good_run_files

__all__ = [
    "SEALED_AT_UTC",
    "example_signer",
    "other_signer",
    "sealed_archive",
    "sealed_bundle",
    "signer_fingerprint",
]

SEALED_AT_UTC: Final = "2026-01-02T04:00:00Z"


def example_signer() -> Ed25519Signer:
    """The signer of good bundles; the same key every time."""
    return _signer("k3-eval example key, known to everybody")


def other_signer() -> Ed25519Signer:
    """Somebody else."""
    return _signer("k3-eval other example key, known to everybody")


def signer_fingerprint() -> str:
    """Fingerprint of `example_signer`."""
    return fingerprint(example_signer().public_key)


def sealed_bundle(**changes: Any) -> Mapping[str, bytes]:
    """All files of a sealed bundle that verifies.

    Args:
        **changes: Fields of `Variation`.

    Returns:
        Path inside the bundle -> content; the same bytes for the same changes.
    """
    return seal(good_run_files(**changes), example_signer(), SEALED_AT_UTC)


def sealed_archive(**changes: Any) -> bytes:
    """The bytes of a bundle file that verifies; see `sealed_bundle`."""
    return archive_bytes(sealed_bundle(**changes))


def _signer(sentence: str) -> Ed25519Signer:
    seed = hashlib.sha256(sentence.encode()).digest()
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(seed))

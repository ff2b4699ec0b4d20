"""Sealed bundles for tests."""

from collections.abc import Mapping
from typing import Any, Final

from k3bundle.archive import archive_bytes
from k3bundle.seal import seal
from k3bundle_testing.example_run import good_run_files
from k3bundle_testing.signers import example_signer

__all__ = ["SEALED_AT_UTC", "sealed_archive", "sealed_bundle"]

SEALED_AT_UTC: Final = "2026-01-02T04:00:00Z"


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

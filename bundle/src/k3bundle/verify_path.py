"""Verifies a bundle file on disk."""

from pathlib import Path

from k3bundle.archive import DEFAULT_LIMITS, ArchiveLimits, read_archive
from k3bundle.errors import BundleError
from k3bundle.policy import Policy
from k3bundle.verify import Report, verify

__all__ = ["verify_path"]


def verify_path(path: Path, policy: Policy, limits: ArchiveLimits = DEFAULT_LIMITS) -> Report:
    """Read and verify a bundle file.

    Args:
        path: The bundle file.
        policy: What the reader demands.
        limits: Sizes and counts that are taken at most.

    Returns:
        The report; a file that cannot be read gives a report with the findings that say why.
    """
    try:
        files = read_archive(path, limits)
    except BundleError as error:
        return Report(error.findings, verdict=None, manifest=None, signer_fingerprint=None)
    return verify(files, policy)

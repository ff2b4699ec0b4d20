"""Reads a bundle that others will rely on, and refuses one with findings."""

from pathlib import Path

from k3bundle.manifest import Manifest
from k3bundle.policy import Policy
from k3bundle.verify import verify
from k3runner.bundle_file import read_bundle
from k3runner.errors import RefusedError
from k3runner.wording import plural

__all__ = ["sound_manifest"]


def sound_manifest(path: Path) -> Manifest:
    """Verify the bundle at `path` and return its manifest.

    Raises:
        RefusedError: There are findings; the error carries them.
        BundleError: The archive cannot be read.
    """
    # A registry refuses such a plan too; here it costs no upload.
    report = verify(read_bundle(path), Policy(require_standard=True))
    if report.findings or report.manifest is None:
        raise RefusedError(
            f"{path} is refused with {plural(len(report.findings), 'finding')}.",
            "Nothing was sent. Take the bundle as the runner wrote it.",
            report.findings,
        )
    return report.manifest

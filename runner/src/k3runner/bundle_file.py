"""Reads a bundle's file, with a sentence for a path that is not one."""

from collections.abc import Mapping
from pathlib import Path

from k3bundle.archive import read_archive
from k3bundle.layout import BUNDLE_SUFFIX
from k3runner.errors import UsageError

__all__ = ["existing_bundle", "read_bundle"]


def read_bundle(path: Path) -> Mapping[str, bytes]:
    """Return the files of a bundle.

    Raises:
        UsageError: There is no such file.
        BundleError: The archive cannot be read.
    """
    return read_archive(existing_bundle(path))


def existing_bundle(path: Path) -> Path:
    """Return `path` when it is a file.

    Raises:
        UsageError: It is not there, or is a folder.
    """
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder; expected a bundle, a file that ends in {BUNDLE_SUFFIX}.",
            f"Give the {BUNDLE_SUFFIX} file that `k3-eval run` printed as bundle_path.",
        )
    if not path.is_file():
        raise UsageError(
            f"No bundle at {path}.",
            "Give the path that `k3-eval run` printed as bundle_path.",
        )
    return path

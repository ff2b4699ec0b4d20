"""Reads a bundle's file, with a sentence for a path that is not one."""

from collections.abc import Mapping
from pathlib import Path

from k3bundle.archive import read_archive
from k3bundle.layout import BUNDLE_SUFFIX
from k3runner.errors import UsageError
from k3runner.visible import one_line

__all__ = ["existing_bundle", "read_bundle", "refuse_impossible"]


def read_bundle(path: Path) -> Mapping[str, bytes]:
    """Return the files of a bundle.

    Raises:
        UsageError: There is no such file.
        BundleError: The archive cannot be read.
    """
    return read_archive(existing_bundle(path))


def refuse_impossible(path: Path) -> None:
    """Checks that a path could be one.

    Raises:
        UsageError: It is too long, or leads through a file or a folder that may not be looked into.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{one_line(str(path), 80)} cannot be looked at: {why}.", "Give the path of a file."
        ) from error


def existing_bundle(path: Path) -> Path:
    """Return `path` when it is a file.

    Raises:
        UsageError: It is not there, or is a folder.
    """
    refuse_impossible(path)
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

"""The source that an image is made from: one commit, without the marks of this checkout."""

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from k3image.problem import EXIT_USAGE, ImageError

__all__ = ["Source", "export_source", "find_source"]

_PARTS = ("bundle", "runner", "server", "k3decode", "tools/engine_shim", "requirements", "image")


@dataclass(frozen=True)
class Source:
    """A commit."""

    root: Path
    commit: str
    epoch: int
    """Its time, in seconds since 1970: the time of everything in the image."""
    is_dirty: bool
    """Whether the checkout holds changes that the commit does not."""

    @property
    def created(self) -> str:
        """Its time, as labels and annotations have it."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_source(root: Path, revision: str) -> Source:
    """The commit that a revision names.

    Raises:
        ImageError: There is no such commit, or this is no checkout.
    """
    commit, epoch = _git(root, "show", "-s", "--format=%H %ct", f"{revision}^{{commit}}").split()
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *_PARTS)
    return Source(root, commit, int(epoch), bool(changed.strip()))


def export_source(source: Source, target: Path) -> None:
    """Write the commit's files with the modes that git knows, whatever the umask here is."""
    target.mkdir(parents=True)
    command = [
        *("git", "-c", f"safe.directory={source.root}", "-C", str(source.root)),
        *("-c", "tar.umask=0022", "archive", "--format=tar", source.commit, "--", *_PARTS),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
        unpack = subprocess.run(
            ["tar", "--extract", "--preserve-permissions", "--directory", str(target)],
            stdin=archive.stdout,
            check=False,
        )
    if archive.returncode != 0 or unpack.returncode != 0:
        raise ImageError(
            f"The files of commit {source.commit} cannot be written to {target}.",
            "check that the disk has room and that git has the commit.",
        )
    for path in [target, *(one for one in target.rglob("*") if one.is_dir())]:
        path.chmod(0o755)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ImageError(
            "git is not here, and an image is made from a commit.", "install git."
        ) from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise ImageError(
            f"git has no such commit: {said[-1] if said else arguments[-1]}.",
            "give --commit a commit of this repository.",
            EXIT_USAGE,
        )
    return done.stdout

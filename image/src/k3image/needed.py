"""What a machine must have and allow for two builds and a run, asked before minutes are spent."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from k3image.problem import ImageError

__all__ = ["mount_refusal", "require_machine"]

_PACKAGES: Final = {
    "mmdebstrap": "mmdebstrap",
    "dpkg-deb": "dpkg",
    "podman": "podman",
    "runc": "runc",
    "skopeo": "skopeo",
    "unshare": "util-linux",
    "hostname": "hostname",
}
"""Program -> Debian's package of it."""
_LAYERED: Final = """
set -e
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
touch merged/written
mknod device c 1 3
"""
"""What both a builder and an engine do, in a few words of the shell."""


def require_machine(
    folder: Path,
    *,
    find: Callable[[str], str | None] = shutil.which,
    refusal: Callable[[Path], str | None] | None = None,
) -> None:
    """Refuse to begin on a machine that cannot build and run images.

    Args:
        folder: Where the builds work; need not exist yet.
        find: Finds a program.
        refusal: Why layers cannot be mounted in a folder; None: tries it.

    Raises:
        ImageError: Programs are missing, or the machine does not allow what builds do.
    """
    missing = [name for name in _PACKAGES if find(name) is None]
    if missing:
        packages = sorted({_PACKAGES[name] for name in missing})
        raise ImageError(
            f"Images are built and run with {', '.join(missing)}, which is not here.",
            f"on Debian or Ubuntu: apt-get install {' '.join(packages)}",
        )
    folder.mkdir(parents=True, exist_ok=True)
    refused = (refusal or mount_refusal)(folder)
    if refused is not None:
        raise ImageError(
            "This machine does not let root mount layers and make devices, and images are built "
            f"with both; it said: {refused}.",
            "use a virtual machine, or a container that is started with --privileged and has a "
            f"volume at {folder}.",
        )


def mount_refusal(folder: Path) -> str | None:
    """Why layers cannot be mounted in a folder, in namespaces of their own; None if they can."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        done = subprocess.run(
            ["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "sh", "-c", _LAYERED],
            cwd=name,
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (said[-1] if said else f"status {done.returncode}")

"""Whether the disk has room for a build, asked before minutes are spent."""

import shutil
from pathlib import Path
from typing import Final

from k3image.problem import ImageError

__all__ = ["require_room"]

_GIB: Final = 1 << 30
_NEEDED_GIB: Final = {"cpu": 9, "gpu": 45}
"""At its highest: base, context, the container, its layer, and the layer once more in the store."""
_SMALL_GIB: Final = 3


def require_room(folder: Path, flavour: str, builds: int = 1) -> None:
    """Refuse to begin what would fill the disk.

    Args:
        folder: Where the builds work; need not exist yet.
        flavour: What is built.
        builds: How many builds are there at a time.

    Raises:
        ImageError: There is less room than they take.
    """
    needed = builds * _NEEDED_GIB.get(flavour, _SMALL_GIB)
    existing = next(one for one in (folder, *folder.parents) if one.is_dir())
    free = shutil.disk_usage(existing).free
    if free < needed * _GIB:
        raise ImageError(
            f"The disk of {existing} is too full: {free / _GIB:.1f} GiB are free, and "
            f"{'a build' if builds == 1 else f'{builds} builds'} of {flavour} may take {needed}.",
            "free some space; `make clean` removes what was made here before.",
        )

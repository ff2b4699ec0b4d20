"""Whether disk and memory have room for a build, asked before minutes are spent."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from k3image.problem import ImageError

__all__ = ["lay_in_memory", "memory_has_room", "require_room"]

_GIB: Final = 1 << 30
_NEEDED_GIB: Final = {"cpu": 9, "gpu": 45}
"""At its highest: base, context, the container, its layer, and the layer once more in the store."""
_SMALL_GIB: Final = 3
_LEFT_GIB: Final = 8
"""Memory that stays for what builds and runs, and for what runs beside."""
_STORE_GIB: Final = 6
"""What a store of the cpu flavour holds at its highest: the container, and its layer."""
_MOST_GIB: Final = 8
"""Where a store in memory ends, so that a build gone wrong does not take all of it."""


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


def memory_has_room(meminfo: str, stores: int) -> bool:
    """Whether memory has room for stores of the cpu flavour, with some left. Pure.

    Args:
        meminfo: The kernel's words about memory.
        stores: How many.
    """
    found = re.search(r"(?m)^MemAvailable: +(\d+) kB$", meminfo)
    return found is not None and int(found[1]) << 10 >= (stores * _STORE_GIB + _LEFT_GIB) * _GIB


def lay_in_memory(folders: list[Path]) -> bool:
    """Have the stores of the cpu flavour in memory, where there is room.

    A hundred thousand files are made and removed for each, and some disks take minutes for it.

    Args:
        folders: Folders of the stores, which need not exist yet.

    Returns:
        Whether they are: otherwise they stay on the disk.
    """
    if not memory_has_room(Path("/proc/meminfo").read_text(), len(folders)):
        return False
    laid = []
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        options = f"size={_MOST_GIB}g,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "k3-image", str(folder)]
        laid.append(subprocess.run(command, check=False).returncode == 0)
    return all(laid)

"""What a build may find different on another machine, or on another day: none of it is in an image.

Folder, umask, language, time zone and the machine's name are set for the process that builds. The
clock of what the build starts is moved with libfaketime, in the base and in the container: the
kernel's own, which sets the times of files, stays, and every builder here replaces those.
"""

import json
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from k3image.problem import ImageError

__all__ = [
    "ORDINARY",
    "OTHER",
    "Clock",
    "Surroundings",
    "find_clock",
    "forget_ended",
    "lay_out_clock",
]

LIBRARY: Final = "libfaketime.so.1"
INSIDE: Final = Path("/opt/k3eval/wheels/clock")
"""Where a build sees it."""
_DAY_S: Final = 86_400
_PLACES: Final = ("/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")


@dataclass(frozen=True)
class Clock:
    """A clock that is ahead."""

    library: Path
    """What makes a program read it."""
    days: int

    def environment(self, library: Path) -> dict[str, str]:
        """What a program must find in its environment, where the library lies at `library`."""
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"+{self.days}d",
            # A program that waits must not wait for days; the times of files are replaced later.
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


@dataclass(frozen=True)
class Surroundings:
    """Where, when and under which settings a build happens."""

    name: str
    """Folder that it works in."""
    umask: int
    environment: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None
    """Name of the machine; None: as it is."""
    days_ahead: int = 0

    def command(self, command: tuple[str, ...]) -> list[str]:
        """The command that starts another one here."""
        if self.host is None:
            return list(command)
        named = 'hostname "$0" && exec "$@"'
        return ["unshare", "--uts", "sh", "-c", named, self.host, *command]


ORDINARY: Final = Surroundings("one", 0o022, {"LC_ALL": "C.UTF-8", "TZ": "UTC"})
OTHER: Final = Surroundings(
    "another-place",
    0o077,
    {"LC_ALL": "C", "TZ": "UTC-13"},
    host="another-host",
    days_ahead=40,
)


def find_clock(days: int) -> Clock | None:
    """A clock that is ahead; None for no days.

    Raises:
        ImageError: libfaketime is not here.
    """
    if days == 0:
        return None
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place.lstrip("/"))):
            if (folder / LIBRARY).is_file():
                return Clock(folder / LIBRARY, days)
    raise ImageError(
        "libfaketime is not here, and the second build has a clock that is ahead.",
        "on Debian or Ubuntu: apt-get install libfaketime",
    )


def forget_ended(shared: Path, processes: Path = Path("/proc")) -> None:
    """Remove what processes under the clock left in shared memory and that nobody owns any more.

    Args:
        shared: Folder of shared memory.
        processes: Folder that has one of its own for each running process.
    """
    for path in shared.glob("*faketime_*"):
        # A later process with the same number would find them and end at once.
        name = re.fullmatch(r"(?:sem\.faketime_sem|faketime_shm)_(\d+)", path.name)
        if name is not None and not (processes / name[1]).exists():
            path.unlink(missing_ok=True)


def lay_out_clock(clock: Clock, folder: Path) -> None:
    """Write what `install.py` needs to start again with this clock.

    Args:
        clock: The clock.
        folder: Folder that does not exist yet, among what the build mounts.
    """
    folder.mkdir()
    shutil.copyfile(clock.library, folder / LIBRARY)
    names = clock.environment(INSIDE / LIBRARY)
    told = {"environment": names, "not_before": int(time.time()) + clock.days * _DAY_S - _DAY_S}
    (folder / "clock.json").write_text(json.dumps(told))

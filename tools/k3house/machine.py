"""What must hold before anything is installed: a Python, room, one installer at a time."""

import fcntl
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from k3house.place import HOUSE
from k3house.problem import HouseError

__all__ = ["check_engine_python", "check_room", "one_at_a_time", "python_identity"]

_ENGINE_PYTHON = (3, 11)
_ENGINE_GLIBC = (2, 31)
_WAY_OUT = (
    "run it with a CPython 3.11 (on Debian 12: apt-get install python3.11-venv; then make eval "
    "PYTHON=/usr/bin/python3.11), or evaluate a server that already runs: "
    "make eval ENGINE_URL=http://127.0.0.1:8000"
)


def python_identity() -> str:
    """The interpreter that environments are made with."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return f"{platform.python_implementation()} {platform.python_version()} {base}"


def check_engine_python() -> None:
    """Refuse an interpreter or a machine that the engine's lock is not for.

    Raises:
        HouseError: This is not CPython 3.11 on Linux x86_64 with a recent enough C library.
    """
    found = (
        f"{platform.python_implementation()} {platform.python_version()} on "
        f"{platform.system()} {platform.machine()}"
    )
    if (
        platform.python_implementation() != "CPython"
        or sys.version_info[:2] != _ENGINE_PYTHON
        or platform.system() != "Linux"
        or platform.machine() != "x86_64"
    ):
        raise HouseError(
            f"The engine is locked for CPython 3.11 on Linux x86_64, and this is {found}.", _WAY_OUT
        )
    name, version = platform.libc_ver()
    if name != "glibc" or tuple(int(part) for part in version.split(".")[:2]) < _ENGINE_GLIBC:
        raise HouseError(
            f"The engine needs glibc 2.31 or newer, and this machine has {name} {version}.",
            "use Debian 11, Ubuntu 20.04 or newer, or evaluate a server that already runs: "
            "make eval ENGINE_URL=http://127.0.0.1:8000",
        )


def check_room(folder: Path, needs_bytes: int, what: str) -> None:
    """Refuse to begin what cannot fit.

    Raises:
        HouseError: Less than `needs_bytes` are free where `folder` will lie.
    """
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needs_bytes:
        raise HouseError(
            f"No room for {what}: {needs_bytes / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB "
            f"are free on the disk that holds {existing}.",
            "free some space there and run the same command again.",
        )


@contextmanager
def one_at_a_time(say: str) -> Iterator[None]:
    """Hold the repository's installation lock; wait, and say so, while another one installs.

    Args:
        say: Sentence to print when there is a wait.
    """
    HOUSE.mkdir(parents=True, exist_ok=True)
    with (HOUSE / "install.lock").open("w") as file:
        if not _try_lock(file):
            sys.stderr.write(say + "\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""The folder of one run: made once, held by one runner at a time, files written once and whole."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k3runner.errors import MachineError

__all__ = ["BUNDLE_FOLDER", "LOCAL_CONFIG", "create_run_folder", "hold", "write_once"]

BUNDLE_FOLDER = "bundle"
"""Where the sealed bundle lies inside the run folder."""
LOCAL_CONFIG = "local.json"
"""How this machine ran the plan; holds paths, so it never enters a bundle."""
_LOCK = ".lock"


def create_run_folder(runs_folder: Path, created_at_utc: str, run_id: str) -> Path:
    """Makes the folder of a new run.

    Args:
        runs_folder: Folder of run folders; made when it is not there.
        created_at_utc: RFC 3339 time; only its digits go into the name.
        run_id: Identity of the run.

    Raises:
        MachineError: The folder cannot be made.
    """
    stamp = created_at_utc[:19].replace("-", "").replace(":", "")
    folder = runs_folder / f"{stamp}-{run_id[:8]}"
    try:
        (folder / "logs").mkdir(parents=True)
    except OSError as error:
        raise MachineError(
            f"The run folder {folder} cannot be made: {error.strerror}.",
            "Free some space, or give another place with --runs.",
        ) from error
    return folder


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Holds a run folder; the lock goes away with the process, however it ends.

    Raises:
        MachineError: Another runner holds it.
    """
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise MachineError(
                f"Another runner (process {lock.read().strip() or 'unknown'}) works in {folder}.",
                "Wait for it to end, or stop it first.",
            ) from error
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def write_once(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all; an existing file must hold the same bytes.

    Raises:
        MachineError: The file exists with other content, or cannot be written.
    """
    if path.exists():
        if path.read_bytes() == content:
            return
        raise MachineError(
            f"{path} exists and holds something else.", "Start a new run instead of this one."
        )
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MachineError(
            f"{path} cannot be written: {error.strerror}.",
            "Free some space, then resume the run.",
        ) from error


def sync_folder(folder: Path) -> None:
    """Makes a new name in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

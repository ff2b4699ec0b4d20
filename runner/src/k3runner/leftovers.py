"""What runs that were killed left behind, as far as it is in the way of the next one.

A runner writes as the user who starts it, and a kill undoes nothing. So a run as root, or as the
user of a container, may leave files that the next user can neither finish nor remove, and the
folders of its engines stay. Nothing is removed here: the sentences say what is there, and how to.
"""

import fcntl
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from k3runner.errors import MachineError
from k3runner.wording import plural

__all__ = [
    "HOME_LOCK",
    "HOME_PREFIX",
    "left_homes",
    "left_sentences",
    "refuse_files_of_others",
    "runs_of_others",
    "user_name",
]

HOME_PREFIX: Final = "k3e-"
"""How folders of engines that run as another user begin."""
HOME_LOCK: Final = "lock"
"""File in such a folder that its runner holds as long as it lives."""
_SHOWN: Final = 3


def refuse_files_of_others(folder: Path, *, uid: int | None = None) -> None:
    """Checks that all files of a run belong to the user who resumes it.

    Args:
        folder: Run folder.
        uid: The user; None: that of this process.

    Raises:
        MachineError: Some do not: the run would fail in its middle, or leave files of two users.
    """
    own = os.geteuid() if uid is None else uid
    others = [(path, owner) for path, owner in _owners(folder) if owner != own]
    if not others:
        return
    path, owner = others[0]
    raise MachineError(
        f"{plural(len(others), 'path')} of another user in {folder}, for example {path} of "
        f"{user_name(owner)}: the run was started as that user.",
        f"Resume it as {user_name(owner)}, or take the files over with "
        f"`sudo chown -R {own} {folder}`.",
    )


def runs_of_others(runs: Path, *, uid: int | None = None) -> tuple[str, ...]:
    """Run folders, and the folder of runs itself, that belong to other users: `PATH of USER`."""
    own = os.geteuid() if uid is None else uid
    if not runs.is_dir():
        return ()
    try:
        found = [runs, *sorted(runs.iterdir())]
    except OSError:
        found = [runs]
    owners = [(path, path.lstat().st_uid) for path in found]
    return tuple(f"{path} of {user_name(owner)}" for path, owner in owners if owner != own)


def left_homes(folder: Path | None = None) -> tuple[Path, ...]:
    """Folders of engines whose runner is gone.

    Args:
        folder: Where they are; None: where temporary files go.
    """
    place = Path(tempfile.gettempdir()) if folder is None else folder
    return tuple(path for path in sorted(place.glob(f"{HOME_PREFIX}*")) if _is_left(path))


def left_sentences(runs: Path) -> tuple[str, ...]:
    """What is worth a remark before a run, each with its next step."""
    found = []
    others, homes = runs_of_others(runs), left_homes()
    if others:
        shown = ", ".join(others[:_SHOWN])
        found.append(
            f"{plural(len(others), 'folder')} of runs of other users: {shown}; a run that is "
            f"started there leaves files of two. Take them over with `sudo chown -R "
            f"{os.geteuid()} {runs}`, or name another place with --runs."
        )
    if homes:
        shown = ", ".join(map(str, homes[:_SHOWN]))
        found.append(
            f"{plural(len(homes), 'folder')} of engines left behind when a runner was killed: "
            f"{shown}. As {user_name(homes[0].lstat().st_uid)}, remove what is no longer needed."
        )
    return tuple(found)


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none on this machine."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _owners(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every entry with its owner; a folder that cannot be looked into has one too."""
    yield folder, folder.lstat().st_uid
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(here, name)
            yield path, path.lstat().st_uid


def _is_left(path: Path) -> bool:
    """Whether nobody holds the lock of a folder; one without a lock is not ours."""
    try:
        with (path / HOME_LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

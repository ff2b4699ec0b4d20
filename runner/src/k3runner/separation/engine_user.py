"""As whom the engine runs: another user where the runner may choose, else with a reason."""

import os
import pwd
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3runner.errors import UsageError

__all__ = ["SAME_USER", "OtherUser", "SameUser", "choose_engine_user"]

SAME_USER: Final = "same"
"""What a user says who does not want another one."""
DEFAULT_ENGINE_USER: Final = "nobody"
_PROBE_LIMIT_S: Final = 60
_PROBE: Final = """
import os, sys
for path in sys.argv[1:]:
    if os.path.isdir(path):
        os.listdir(path)
    else:
        open(path, "rb").close()
"""


@dataclass(frozen=True)
class OtherUser:
    """The engine runs as this user."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True)
class SameUser:
    """The engine runs as the user of the runner."""

    reason: str
    """Why, in a sentence."""
    next_step: str = ""
    """How to have another one, in a sentence; empty where this one was asked for."""


def choose_engine_user(
    wanted: str | None, *, engine_python: Path, readable: Iterable[Path]
) -> OtherUser | SameUser:
    """Chooses the user, and checks that it can do the engine's work.

    Args:
        wanted: Name or number of a user, `same`, or None for `nobody`.
        engine_python: Python that the user must be able to run.
        readable: Files and folders that it must be able to read.

    Raises:
        UsageError: There is no such user, or it is root itself.
    """
    if wanted == SAME_USER:
        return SameUser("K3EVAL_ENGINE_USER asks for the runner's own user.")
    if os.geteuid() != 0:
        return SameUser(
            "The runner is not root, so it cannot start the engine as another user: the engine "
            "could write what the runner can, and only the guard shows whether it did.",
            f"Start it as root to have engines run as {DEFAULT_ENGINE_USER}.",
        )
    user = _find(wanted or DEFAULT_ENGINE_USER)
    why_not = _why_unable(user, engine_python, readable)
    if why_not is None:
        return user
    if wanted is not None:
        raise UsageError(
            f"The user {user.name} of K3EVAL_ENGINE_USER cannot run the engine: {why_not}.",
            "Let it read the engine and the model, or set K3EVAL_ENGINE_USER=same.",
        )
    return SameUser(
        f"The user {user.name} cannot run the engine: {why_not}.",
        "Let it read the engine and the model and pass through the folders above them, or name "
        "another user in K3EVAL_ENGINE_USER.",
    )


def _find(wanted: str) -> OtherUser:
    try:
        entry = pwd.getpwuid(int(wanted)) if wanted.isdigit() else pwd.getpwnam(wanted)
        found = OtherUser(entry.pw_uid, entry.pw_gid, entry.pw_name)
    except (KeyError, OverflowError) as error:
        raise UsageError(
            f"K3EVAL_ENGINE_USER names no user of this machine: {wanted}.",
            "Give a name or number of /etc/passwd, or `same`.",
        ) from error
    if found.uid == 0:
        raise UsageError(
            "K3EVAL_ENGINE_USER must not be root: the engine could then write the referee's files.",
            "Give another user, or `same` to say that it runs as the runner does.",
        )
    return found


def _why_unable(user: OtherUser, engine_python: Path, readable: Iterable[Path]) -> str | None:
    """What the user cannot do, as the end of a sentence; None when it can do all."""
    command = [str(engine_python), "-I", "-S", "-c", _PROBE, *map(str, readable)]
    try:
        done = subprocess.run(
            command,
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{engine_python} does not start for it ({type(error).__name__})"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1][:300] if said else f"{engine_python} ended with status {done.returncode}"

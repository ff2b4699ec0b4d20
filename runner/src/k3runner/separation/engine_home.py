"""Folders of an engine that runs as another user: one home for each arm, closed when unused."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from k3bundle.subject import ArmName
from k3runner.leftovers import HOME_LOCK, HOME_PREFIX
from k3runner.separation.engine_user import OtherUser

__all__ = ["ArmHome", "EngineHomes"]


@dataclass(frozen=True)
class ArmHome:
    """Where one boot works."""

    folder: Path
    """Working folder."""
    environment: Mapping[str, str]
    """Variables that point there."""


class EngineHomes:
    """Folders for the boots of one run. Use as a context manager.

    Each arm keeps its home over all its boots, so that compiled code is found again. While the
    other arm runs the home belongs to root, so that no arm can leave something for the other.
    """

    def __init__(self, user: OtherUser, *, keeps_bytecode: bool = False) -> None:
        """Makes the folder that holds the homes; short, since sockets have short names.

        Args:
            user: User that engines run as.
            keeps_bytecode: Whether engines keep byte code in their homes. Where their environment
                has none and is not theirs to write, each boot would compile everything again.
        """
        self._user = user
        self._keeps_bytecode = keeps_bytecode
        self.folder = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
        """Root's folder; everybody may pass through it and nobody may list it."""
        self.folder.chmod(0o711)
        # Free again when this process ends, however it does: what is then still there was left.
        self._lock = (self.folder / HOME_LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self) -> "EngineHomes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    @contextmanager
    def home(self, arm: ArmName) -> Iterator[ArmHome]:
        """The home of an arm, open to the engine while the context lasts."""
        folder = self.folder / arm
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary = folder / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        os.chown(temporary, self._user.uid, self._user.gid, follow_symlinks=False)
        os.chown(folder, self._user.uid, self._user.gid)
        try:
            yield ArmHome(
                folder=folder,
                environment={
                    "HOME": str(folder),
                    "TMPDIR": str(temporary),
                    **(
                        {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
                        if self._keeps_bytecode
                        else {}
                    ),
                },
            )
        finally:
            os.chown(folder, os.geteuid(), os.getegid())
            folder.chmod(0o700)

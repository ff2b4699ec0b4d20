"""Notices when protected files change while an engine runs.

A second line behind the separate user, and the only one without it. File times cannot be set back
without a trace: the time of the last change of an inode is the kernel's own. Byte code that is
added is passed over, because the referee's own Python writes it; byte code that changes is not.
"""

import contextlib
import hashlib
import os
import stat
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import k3bundle
import k3runner
from k3bundle.separation import Alteration, SeparationRecord
from k3runner.separation.engine_user import OtherUser, SameUser

__all__ = ["Guard", "referee_files"]

SYSTEM_FILES: Final = (
    Path("/etc/ld.so.preload"),
    Path("/etc/ld.so.cache"),
    Path("/etc/ld.so.conf"),
    Path("/etc/localtime"),
    Path("/etc/timezone"),
    Path("/etc/adjtime"),
)
"""What decides which code programs load and what their wall clock means."""
_UNUSED: Final = frozenset(
    os.path.join(sysconfig.get_path("stdlib"), name)  # noqa: PTH118
    for name in ("dist-packages", "ensurepip", "idlelib", "site-packages", "test", "turtledemo")
)
"""Folders beside the standard library that a process in a virtual environment imports nothing from;
the referee's own site-packages are named by `referee_files`."""
_MOST_ALTERATIONS: Final = 200
Kind = Literal["added", "removed", "content", "touched", "records_rewritten"]


class FileState(NamedTuple):
    """What shows that a file was written."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int
    mode: int
    uid: int
    gid: int
    links: int


@dataclass(frozen=True)
class _Snapshot:
    files: Mapping[str, FileState]
    records: Mapping[Path, tuple[int, str]]
    """Record file -> length and digest of what it held."""
    clock_offset_s: float
    """Wall clock minus monotonic clock."""


class Guard:
    """The protected files of one run."""

    def __init__(
        self,
        protected: Iterable[Path],
        *,
        records: Iterable[Path],
        places: Mapping[str, str],
        clock_offset_s: Callable[[], float] = lambda: time.time() - time.monotonic(),
    ) -> None:
        """Names what is protected; nothing is read yet.

        Args:
            protected: Files, and folders with everything below.
            records: Files that the referee appends to; what they hold must stay as it is.
            places: Path of this machine -> placeholder in records.
            clock_offset_s: Wall clock minus monotonic clock, in seconds.
        """
        self._protected = tuple(protected)
        self._records = tuple(records)
        self._places = dict(places)
        self._clock_offset_s = clock_offset_s
        self._before: _Snapshot | None = None

    def begin(self) -> None:
        """Notes the state of everything, before the engine is started."""
        self._before = self._snapshot()

    def end(self, boot_id: str, user: OtherUser | SameUser) -> SeparationRecord:
        """Compares with the state at `begin`, after the engine has ended.

        Args:
            boot_id: The boot.
            user: As whom the engine ran.
        """
        before = self._before
        if before is None:
            raise AssertionError("a guard ends after it began")
        now = self._snapshot()
        other = isinstance(user, OtherUser)
        changes = sorted(
            [
                *_changed_files(before.files, now.files, links_count=not other),
                *self._rewritten(before.records),
            ]
        )
        shown = changes[:_MOST_ALTERATIONS]
        shift_s = now.clock_offset_s - before.clock_offset_s
        return SeparationRecord(
            boot_id=boot_id,
            engine_user="other" if other else "same",
            why_same=user.reason if isinstance(user, SameUser) else None,
            protected_files=len(before.files) + len(before.records),
            alterations=tuple(Alteration(path=self._name(path), kind=kind) for path, kind in shown),
            alterations_left_out=len(changes) - len(shown),
            wall_clock_shift_ms=round(shift_s * 1e3, 3),
        )

    def _snapshot(self) -> _Snapshot:
        files = dict(_states(self._protected))
        records = {}
        for path in self._records:
            content = _content(path)
            records[path] = (len(content), hashlib.sha256(content).hexdigest())
        return _Snapshot(files, records, self._clock_offset_s())

    def _rewritten(self, before: Mapping[Path, tuple[int, str]]) -> Iterator[tuple[str, Kind]]:
        for path, (length, digest) in before.items():
            if hashlib.sha256(_content(path)[:length]).hexdigest() != digest:
                yield str(path), "records_rewritten"

    def _name(self, text: str) -> str:
        for place in sorted(self._places, key=len, reverse=True):
            if text == place or text.startswith(f"{place}/"):
                return (self._places[place] + text[len(place) :])[:2000]
        return text[:2000]


def referee_files() -> tuple[Path, ...]:
    """What this process consists of: interpreter, libraries, and the referee's own code."""
    packages = [Path(origin).parent for origin in (k3bundle.__file__, k3runner.__file__) if origin]
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    executable = Path(sys.executable)
    return tuple(sorted({*folders, *packages, executable, executable.resolve(), *SYSTEM_FILES}))


def _states(protected: Iterable[Path]) -> Iterator[tuple[str, FileState]]:
    for path in protected:
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                yield from _states_below(str(path))
            else:
                yield str(path), _state(found)


def _states_below(top: str) -> Iterator[tuple[str, FileState]]:
    folders = [top]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path, _state(entry.stat(follow_symlinks=False))
                    if entry.is_symlink() and entry.is_file():
                        # What a link names is what is read, for example a shard in a cache.
                        yield os.path.realpath(entry.path), _state(entry.stat())
                elif entry.path not in _UNUSED:
                    folders.append(entry.path)


def _state(found: os.stat_result) -> FileState:
    return FileState(
        inode=found.st_ino,
        size_bytes=found.st_size,
        modified_ns=found.st_mtime_ns,
        changed_ns=found.st_ctime_ns,
        mode=found.st_mode,
        uid=found.st_uid,
        gid=found.st_gid,
        links=found.st_nlink,
    )


def _changed_files(
    before: Mapping[str, FileState], now: Mapping[str, FileState], *, links_count: bool
) -> Iterator[tuple[str, Kind]]:
    """Paths that changed and how.

    Args:
        before: States before.
        now: States after.
        links_count: Whether another name for a file is a change. An installer that shares files
            between environments makes one; whoever can write the file could hide behind one.
    """
    for path in before.keys() | now.keys():
        old, new = before.get(path), now.get(path)
        if old == new or (not links_count and _only_linked(old, new)):
            continue
        if new is None:
            yield path, "removed"
        elif old is None:
            if not path.endswith(".pyc"):
                yield path, "added"
        elif (old.inode, old.size_bytes, old.modified_ns) != (
            new.inode,
            new.size_bytes,
            new.modified_ns,
        ):
            yield path, "content"
        else:
            yield path, "touched"


def _only_linked(old: FileState | None, new: FileState | None) -> bool:
    """Whether a file got or lost another name and nothing else happened to it."""
    if old is None or new is None or old.links == new.links:
        return False
    return old._replace(links=new.links, changed_ns=new.changed_ns) == new


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""

"""Archives in a folder, addressed by digest.

    FOLDER/incoming/   files being received; what is there before a start is from a crash
    FOLDER/cas/ab/     finished files, named by their SHA-256, mode 0444

A file reaches cas/ by a hard link after its content was hashed and forced to disk, so a name in
cas/ always has its whole content, whatever moment the process died at. One process at a time may
use a folder; the command line takes a lock for that.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Literal

from k3server.adapters.full_disk import full_is_told
from k3server.ports import DigestMismatchError, StoredBlob, StoreFullError

__all__ = ["FilesystemStore"]

_HELPERS: Final = 2
_LARGE_PIECE_BYTES: Final = 256 * 1024
"""Pieces that are worth hashing in another thread while they are written."""
_FORCED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one file that are forced to disk while further ones are written."""


class FilesystemStore:
    """A `BundleStore` in a local folder."""

    def __init__(self, folder: Path) -> None:
        """Prepare the folder.

        Raises:
            OSError: The folder cannot be made or written.
        """
        self._incoming = folder / "incoming"
        self._cas = folder / "cas"
        self._helpers = ThreadPoolExecutor(_HELPERS, thread_name_prefix="k3-store")
        for each in (self._incoming, self._cas):
            each.mkdir(parents=True, exist_ok=True)
        _force_to_disk(folder)

    def clear_incoming(self) -> None:
        """Remove what a crash left in incoming/; only while nothing else uses the folder."""
        for leftover in self._incoming.iterdir():
            leftover.unlink()

    def begin(self, sha256: str) -> "_IncomingFile":
        """Start to receive a blob."""
        with full_is_told():
            descriptor, name = tempfile.mkstemp(dir=self._incoming, prefix=f"{sha256[:16]}-")
        file = os.fdopen(descriptor, "wb")
        return _IncomingFile(file, Path(name), self._path(sha256), sha256, self._helpers)

    def size(self, sha256: str) -> int | None:
        """Size of a stored blob in bytes; None when it is not there."""
        try:
            return self._path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def open(self, sha256: str) -> BinaryIO:
        """Open a stored blob for reading."""
        try:
            return self._path(sha256).open("rb")
        except FileNotFoundError:
            raise KeyError(sha256) from None

    @contextmanager
    def materialise(self, sha256: str) -> Iterator[Path]:
        """The stored file itself."""
        path = self._path(sha256)
        if not path.exists():
            raise KeyError(sha256)
        yield path

    def iterate(self) -> Iterator[StoredBlob]:
        """Every stored blob, by digest."""
        for path in sorted(self._cas.glob("??/*")):
            yield StoredBlob(path.name, path.stat().st_size)

    def remove(self, sha256: str) -> None:
        """Remove a blob; harmless when it is not there."""
        path = self._path(sha256)
        if path.exists():
            path.unlink()
            _force_to_disk(path.parent)

    def sweep(self, before: datetime) -> int:
        """Remove files in incoming/ that nothing was written to since `before`."""
        swept = 0
        for path in self._incoming.iterdir():
            # One that is being received may end between the listing and here.
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
                    swept += 1
        return swept

    def download_url(self, sha256: str, file_name: str) -> str | None:
        """None: only the registry can read the folder."""
        del sha256, file_name
        return None

    def _path(self, sha256: str) -> Path:
        return self._cas / sha256[:2] / sha256


class _IncomingFile:
    """A file in incoming/ that becomes a name in cas/."""

    def __init__(
        self, file: BinaryIO, path: Path, target: Path, sha256: str, helpers: Executor
    ) -> None:
        self._file = file
        self._path = path
        self._target = target
        self._expected = sha256
        self._hash = hashlib.sha256()
        self._helpers = helpers
        self._hashing: Future[None] | None = None
        self._forcing: Future[None] | None = None
        self._unforced = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        _await(self._hashing)
        if len(data) >= _LARGE_PIECE_BYTES:
            self._hashing = self._helpers.submit(self._hash.update, data)
        else:
            self._hashing = None
            self._hash.update(data)
        try:
            with full_is_told():
                self._file.write(data)
                self._force(len(data))
        except (OSError, StoreFullError):
            self.discard()
            raise

    def _force(self, written: int) -> None:
        """Have the disk at work while more is coming, and not only at the end."""
        self._unforced += written
        if self._unforced >= _FORCED_BYTES and (self._forcing is None or self._forcing.done()):
            # What the last one met, for example a full disk, the next one would not be told again.
            _await(self._forcing)
            self._forcing = self._helpers.submit(os.fdatasync, self._file.fileno())
            self._unforced = 0

    def commit(self) -> Literal["created", "existing"]:
        """Check the digest, force the content to disk, then make the name visible."""
        _await(self._hashing)
        found = self._hash.hexdigest()
        try:
            if found != self._expected:
                raise DigestMismatchError(self._expected, found)
            with full_is_told():
                _await(self._forcing)
                self._file.flush()
                os.fchmod(self._file.fileno(), 0o444)
                os.fsync(self._file.fileno())
                return self._link()
        finally:
            self.discard()

    def discard(self) -> None:
        """Close and remove the file in incoming/."""
        # The helper's descriptor must not become another file's.
        with suppress(OSError):
            _await(self._forcing)
        # Closing flushes; on a full disk that fails again, and the bytes are unwanted anyway.
        with suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _link(self) -> Literal["created", "existing"]:
        shard = self._target.parent
        shard.mkdir(exist_ok=True)
        _force_to_disk(shard.parent)
        try:
            os.link(self._path, self._target)
        except FileExistsError:
            return "existing"
        finally:
            _force_to_disk(shard)
        return "created"


def _await(work: Future[None] | None) -> None:
    if work is not None:
        work.result()


def _force_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A store that forgets everything when the process ends."""

import hashlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal

from k3server.ports import DigestMismatchError, StoredBlob, StoreFullError

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `BundleStore` in memory, with a size that can run out."""

    def __init__(self, capacity_bytes: int = 2**40) -> None:
        self.capacity_bytes = capacity_bytes
        self.blobs: dict[str, bytes] = {}
        self.link_base: str | None = None

    def begin(self, sha256: str) -> "_IncomingBytes":
        """Start to receive a blob."""
        return _IncomingBytes(self, sha256)

    def size(self, sha256: str) -> int | None:
        """Size of a stored blob."""
        blob = self.blobs.get(sha256)
        return None if blob is None else len(blob)

    def open(self, sha256: str) -> BinaryIO:
        """Open a stored blob."""
        return io.BytesIO(self.blobs[sha256])

    @contextmanager
    def materialise(self, sha256: str) -> Iterator[Path]:
        """A temporary file with the content."""
        content = self.blobs[sha256]
        with tempfile.NamedTemporaryFile(suffix=".k3b") as file:
            file.write(content)
            file.flush()
            yield Path(file.name)

    def iterate(self) -> Iterator[StoredBlob]:
        """Every stored blob."""
        for sha256, content in sorted(self.blobs.items()):
            yield StoredBlob(sha256, len(content))

    def remove(self, sha256: str) -> None:
        """Remove a blob."""
        self.blobs.pop(sha256, None)

    def sweep(self, before: datetime) -> int:
        """Nothing is ever left."""
        del before
        return 0

    def download_url(self, sha256: str, file_name: str) -> str | None:
        """The address that a test gave, with what was asked for."""
        return None if self.link_base is None else f"{self.link_base}/{sha256}/{file_name}"


class _IncomingBytes:
    def __init__(self, store: MemoryStore, sha256: str) -> None:
        self._store = store
        self._sha256 = sha256
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        used = sum(len(blob) for blob in self._store.blobs.values())
        if used + len(self._data) + len(data) > self._store.capacity_bytes:
            raise StoreFullError("The memory store is full.")
        self._data += data

    def commit(self) -> Literal["created", "existing"]:
        found = hashlib.sha256(self._data).hexdigest()
        if found != self._sha256:
            raise DigestMismatchError(self._sha256, found)
        if self._sha256 in self._store.blobs:
            return "existing"
        self._store.blobs[self._sha256] = bytes(self._data)
        return "created"

    def discard(self) -> None:
        self._data.clear()

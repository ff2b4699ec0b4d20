"""What an operator does with the store: remove what nobody named, and hash everything again."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal

from k3server.ports import BlobLedger, BundleStore, SubmissionIndex

__all__ = ["BlobReport", "Collected", "collect_garbage", "verify_store"]

_PIECE_BYTES: Final = 1024 * 1024
_PAGE: Final = 500


@dataclass(frozen=True)
class Collected:
    """What garbage collection removed."""

    blobs: int
    """Archives and parts that no submission and no open upload named."""
    size_bytes: int
    """Their bytes."""
    uploads: int
    """Uploads in parts that expired."""
    leftovers: int
    """Interrupted writes that the store still held."""


@dataclass(frozen=True)
class BlobReport:
    """What was found about the archive of one submission."""

    bundle_sha256: str
    """The submission."""
    blob_sha256: str
    """Its archive."""
    state: Literal["intact", "missing", "damaged"]
    """`damaged`: the bytes have another digest or size."""


def collect_garbage(
    store: BundleStore, ledger: BlobLedger, *, now: datetime, keep_s: float
) -> Collected:
    """Remove what nobody named.

    Args:
        store: Archives.
        ledger: Which of them are wanted.
        now: The time of day.
        keep_s: How long an archive stays after it was last sent or submitted; a contributor has
            this long between sending an archive and submitting it.

    Raises:
        StoreUnavailableError: Store or database do not answer; what was removed stays removed.
    """
    before = now - timedelta(seconds=keep_s)
    uploads = ledger.close_expired(now)
    blobs = size_bytes = 0
    for blob in store.iterate():
        remove = partial(store.remove, blob.sha256)
        if ledger.release(blob.sha256, before=before, now=now, remove=remove):
            blobs += 1
            size_bytes += blob.size_bytes
    return Collected(blobs, size_bytes, uploads, store.sweep(before))


def verify_store(store: BundleStore, index: SubmissionIndex) -> Iterator[BlobReport]:
    """Hash the archive of every submission again, newest first.

    Raises:
        StoreUnavailableError: Store or database do not answer.
    """
    before: int | None = None
    while rows := index.every(limit=_PAGE, before=before):
        for row in rows:
            state = _state(store, row.blob_sha256, row.blob_size_bytes)
            yield BlobReport(row.bundle_sha256, row.blob_sha256, state)
        before = rows[-1].sequence


def _state(
    store: BundleStore, sha256: str, size_bytes: int
) -> Literal["intact", "missing", "damaged"]:
    try:
        file = store.open(sha256)
    except KeyError:
        return "missing"
    found = hashlib.sha256()
    size = 0
    with file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
            size += len(piece)
    return "intact" if (found.hexdigest(), size) == (sha256, size_bytes) else "damaged"

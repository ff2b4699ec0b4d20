"""What the registry needs from the outside world. Adapters fulfil these; nothing else does I/O.

Calls of the store and of the index block, so routes run them in a worker thread.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument
from k3server.errors import ProblemFinding
from k3server.submission import NewSubmission, Submission, SubmissionRow
from k3server.trust import Attribution, NonceTicket, Space

__all__ = [
    "Added",
    "BlobLedger",
    "BundleStore",
    "Clock",
    "DigestMismatchError",
    "IncomingBlob",
    "OpenUpload",
    "Refused",
    "StoreFullError",
    "StoreUnavailableError",
    "StoredBlob",
    "SubmissionIndex",
    "Verification",
    "Verified",
    "Verifier",
]


class Clock(Protocol):
    """The time of day."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...


class DigestMismatchError(Exception):
    """The content of a blob is not what its name says."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"Expected content with SHA-256 {expected}, found {found}.")
        self.expected = expected
        self.found = found


class StoreFullError(Exception):
    """The store or the index has no room for what it was given; nothing of it was kept."""


class StoreUnavailableError(Exception):
    """The store or the database does not answer; the same request may succeed later."""


@dataclass(frozen=True)
class StoredBlob:
    """A blob as the store lists it."""

    sha256: str
    """Its digest."""
    size_bytes: int
    """Its size in bytes."""


class IncomingBlob(Protocol):
    """A blob on its way into the store; invisible until `commit`."""

    def write(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            StoreFullError: There is no room.
        """
        ...

    def commit(self) -> Literal["created", "existing"]:
        """Make the blob durable and visible under its digest.

        Raises:
            DigestMismatchError: The bytes do not have the promised digest; nothing is kept.
            StoreFullError: There is no room; nothing is kept.
        """
        ...

    def discard(self) -> None:
        """Forget the blob; harmless after `commit`."""
        ...


class BundleStore(Protocol):
    """Archives by the SHA-256 of their bytes. A stored blob never changes."""

    def begin(self, sha256: str) -> IncomingBlob:
        """Start to receive the blob with this digest.

        Raises:
            StoreFullError: There is no room.
        """
        ...

    def size(self, sha256: str) -> int | None:
        """Size of a stored blob in bytes; None when it is not there."""
        ...

    def open(self, sha256: str) -> BinaryIO:
        """Open a stored blob for reading.

        Raises:
            KeyError: It is not there.
        """
        ...

    def materialise(self, sha256: str) -> AbstractContextManager[Path]:
        """A local file with the content of a stored blob, read-only, for the `with` block.

        Raises:
            KeyError: It is not there.
            StoreUnavailableError: It cannot be read, or what was read has another digest.
        """
        ...

    def iterate(self) -> Iterator[StoredBlob]:
        """Every stored blob, by digest."""
        ...

    def remove(self, sha256: str) -> None:
        """Remove a blob; harmless when it is not there. Only garbage collection calls it."""
        ...

    def sweep(self, before: datetime) -> int:
        """Remove what interrupted writes left in the store before `before`; returns how many."""
        ...

    def download_url(self, sha256: str, file_name: str) -> str | None:
        """An address that gives the blob as an attachment for a short time, past this registry.

        Returns:
            None where the store has no such addresses.
        """
        ...


@dataclass(frozen=True)
class Added:
    """What became of a submission that was handed to the index."""

    submission: Submission
    """The submission as the index keeps it."""
    created: bool
    """False when it was there already; the index then kept the first one."""


class SubmissionIndex(Protocol):
    """Submissions and nonces. Append-only: no submission is changed or removed."""

    def add(self, new: NewSubmission) -> Added:
        """Insert a submission and judge its nonce, in one transaction; or get the one there.

        Raises:
            StoreFullError: There is no room; nothing is kept.
        """
        ...

    def get(self, bundle_sha256: str) -> Submission | None:
        """The submission with this bundle digest."""
        ...

    def find_blob(self, blob_sha256: str) -> Submission | None:
        """The submission that was made from this archive."""
        ...

    def every(self, *, limit: int, before: int | None = None) -> tuple[SubmissionRow, ...]:
        """All submissions, whatever became of them, newest first. For the operator only."""
        ...

    def latest(
        self, *, limit: int, before: int | None = None, space: Space | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions, newest first, without quarantined ones.

        Args:
            limit: Rows at most.
            before: Only submissions with a smaller sequence.
            space: Only submissions of this space.
        """
        ...

    def of_pull(
        self,
        repository: str,
        pull_request: int,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """The same of a pull request. Repository names ignore case."""
        ...

    def of_commit(
        self,
        repository: str,
        commit_sha: str,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """The same of a commit. Repository names ignore case."""
        ...

    def of_plan(
        self,
        plan_sha256: str,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """The same of a plan, on whatever commit and machine."""
        ...

    def search(
        self,
        *,
        limit: int,
        repository: str | None = None,
        digest_prefix: str | None = None,
        subject: str | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """Submissions that fit what is given, newest first, without quarantined ones.

        Args:
            limit: Rows at most.
            repository: `owner/name`, in any case.
            digest_prefix: Beginning of a submission's id or of a commit, lower-case hexadecimal.
            subject: Name of a subject, in any case.
        """
        ...

    def latest_good(self, repository: str, pull_request: int) -> SubmissionRow | None:
        """The newest PASS of a pull request that is neither retracted nor in the playground."""
        ...

    def attribute(self, bundle_sha256: str, attribution: Attribution, at: datetime) -> Submission:
        """Note that someone stands behind a submission; again is harmless.

        Raises:
            KeyError: There is no such submission.
        """
        ...

    def add_witness(self, bundle_sha256: str, witness_sha256: str, at: datetime) -> None:
        """Note that two submissions agree; both are `reproduced` while the other one stands."""
        ...

    def issue_nonce(self, ticket: NonceTicket) -> None:
        """Record a nonce.

        Raises:
            KeyError: This nonce was issued before.
            StoreFullError: There is no room; nothing is kept.
        """
        ...


@dataclass(frozen=True)
class OpenUpload:
    """An upload in parts, from its opening to its completion."""

    upload_id: str
    """32 lower-case hexadecimal digits."""
    blob_sha256: str
    """Digest that the whole must have."""
    size_bytes: int
    """Size of the whole in bytes."""
    part_size_bytes: int
    """Size of every part but the last."""
    opened_at: datetime
    """When it was opened, in UTC."""
    expires_at: datetime
    """When it is forgotten, in UTC."""

    @property
    def part_count(self) -> int:
        """Number of parts, 1 or more."""
        return -(-self.size_bytes // self.part_size_bytes)

    def part_bytes(self, number: int) -> int:
        """Size of part `number`, from 1, in bytes."""
        whole = self.part_size_bytes
        return whole if number < self.part_count else self.size_bytes - (number - 1) * whole


class BlobLedger(Protocol):
    """Which blobs are wanted, and uploads in parts. Parts are blobs themselves."""

    def renew(self, sha256: str, at: datetime) -> None:
        """Note that a blob was wanted; it then stays for a while without a submission."""
        ...

    def release(
        self, sha256: str, *, before: datetime, now: datetime, remove: Callable[[], None]
    ) -> bool:
        """Remove a blob that no submission and no open upload names, last wanted before `before`.

        While `remove` runs, `renew` of this blob waits. A blob of which nothing is known counts as
        wanted now.

        Returns:
            Whether it was removed.
        """
        ...

    def open_upload(self, upload: OpenUpload) -> OpenUpload:
        """Record an upload; or get the open one of the same blob and sizes."""
        ...

    def upload(self, upload_id: str, now: datetime) -> OpenUpload | None:
        """The upload with this id; None when there is none or it expired."""
        ...

    def add_part(self, upload_id: str, number: int, part_sha256: str) -> None:
        """Record that a part is in the store; a part that came again takes the place of the first.

        Raises:
            KeyError: The upload is gone.
        """
        ...

    def parts(self, upload_id: str) -> dict[int, str]:
        """Number -> digest of the parts that are in the store."""
        ...

    def close_upload(self, upload_id: str) -> None:
        """Forget an upload; its parts are garbage then."""
        ...

    def close_expired(self, now: datetime) -> int:
        """Forget uploads that expired; returns how many."""
        ...


@dataclass(frozen=True)
class Verified:
    """The bundle holds; every number in it follows from its raw records."""

    document: SubmissionDocument
    """What to index."""


@dataclass(frozen=True)
class Refused:
    """The bundle does not hold, or could not be judged within the limits."""

    title: str
    """The kind of refusal."""
    findings: tuple[ProblemFinding, ...]
    """Every reason; at least one."""


Verification = Verified | Refused
"""What the verifier says about an archive."""


class Verifier(Protocol):
    """Judges an archive."""

    async def verify(self, archive: Path, change: ChangeUnderTest) -> Verification:
        """Judge the archive as evidence for `change`.

        Raises:
            OSError: The verifier could not be started.
        """
        ...

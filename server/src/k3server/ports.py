"""What the registry needs from the outside world. Adapters fulfil these; nothing else does I/O.

Calls of the store and of the index block, so routes run them in a worker thread.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument
from k3server.errors import ProblemFinding
from k3server.submission import NewSubmission, Submission, SubmissionRow
from k3server.trust import NonceTicket

__all__ = [
    "Added",
    "BundleStore",
    "Clock",
    "DigestMismatchError",
    "IncomingBlob",
    "Refused",
    "StoreFullError",
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
    """Submissions and nonces. Append-only: nothing is changed or removed."""

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

    def latest(self, *, limit: int, before: int | None = None) -> tuple[SubmissionRow, ...]:
        """Submissions, newest first; with `before`, only those with a smaller sequence."""
        ...

    def of_pull(
        self, repository: str, pull_request: int, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a pull request, newest first. Repository names ignore case."""
        ...

    def of_commit(
        self, repository: str, commit_sha: str, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a commit, newest first. Repository names ignore case."""
        ...

    def issue_nonce(self, ticket: NonceTicket) -> None:
        """Record a nonce.

        Raises:
            KeyError: This nonce was issued before.
            StoreFullError: There is no room; nothing is kept.
        """
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

"""An index that forgets everything when the process ends."""

import threading
from collections.abc import Callable

from k3server.document import summarise
from k3server.ports import Added
from k3server.submission import NewSubmission, Submission, SubmissionRow
from k3server.trust import NonceTicket, nonce_standing

__all__ = ["MemoryIndex"]


class MemoryIndex:
    """A `SubmissionIndex` in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._submissions: list[Submission] = []
        self._tickets: dict[str, NonceTicket] = {}
        self._used: set[str] = set()

    def add(self, new: NewSubmission) -> Added:
        """Insert, or get the one there."""
        with self._lock:
            existing = self.get(new.document.bundle_sha256)
            if existing is not None:
                return Added(existing, created=False)
            submission = self._make(new)
            self._submissions.append(submission)
            return Added(submission, created=True)

    def get(self, bundle_sha256: str) -> Submission | None:
        """The submission with this bundle digest."""
        return next((s for s in self._submissions if s.row.bundle_sha256 == bundle_sha256), None)

    def find_blob(self, blob_sha256: str) -> Submission | None:
        """The submission that was made from this archive."""
        return next((s for s in self._submissions if s.row.blob_sha256 == blob_sha256), None)

    def latest(self, *, limit: int, before: int | None = None) -> tuple[SubmissionRow, ...]:
        """Submissions, newest first."""
        return self._page(lambda _: True, limit, before)

    def of_pull(
        self, repository: str, pull_request: int, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a pull request, newest first."""
        wanted = (repository.lower(), pull_request)
        return self._page(
            lambda row: (row.change.repository.lower(), row.change.pull_request) == wanted,
            limit,
            before,
        )

    def of_commit(
        self, repository: str, commit_sha: str, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a commit, newest first."""
        wanted = (repository.lower(), commit_sha)
        return self._page(
            lambda row: (row.change.repository.lower(), row.change.commit_sha) == wanted,
            limit,
            before,
        )

    def issue_nonce(self, ticket: NonceTicket) -> None:
        """Record a nonce."""
        with self._lock:
            if ticket.nonce in self._tickets:
                raise KeyError(ticket.nonce)
            self._tickets[ticket.nonce] = ticket

    def _make(self, new: NewSubmission) -> Submission:
        manifest = new.document.manifest
        nonce = manifest.run.nonce
        standing = nonce_standing(
            manifest.run,
            manifest.change,
            ticket=self._tickets.get(nonce),
            used_by_another=nonce in self._used,
            received_at=new.received_at,
        )
        if standing == "issued-here":
            self._used.add(nonce)
        row = SubmissionRow(
            sequence=len(self._submissions) + 1,
            bundle_sha256=new.document.bundle_sha256,
            blob_sha256=new.blob_sha256,
            blob_size_bytes=new.blob_size_bytes,
            change=manifest.change,
            trust=new.trust,
            nonce_standing=standing,
            received_at=new.received_at,
            summary=summarise(new.document),
        )
        return Submission(row, new.document)

    def _page(
        self, wanted: Callable[[SubmissionRow], bool], limit: int, before: int | None
    ) -> tuple[SubmissionRow, ...]:
        rows = (submission.row for submission in reversed(self._submissions))
        kept = [row for row in rows if wanted(row) and (before is None or row.sequence < before)]
        return tuple(kept[:limit])

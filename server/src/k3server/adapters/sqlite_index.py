"""Submissions and nonces in one SQLite file.

Writers begin with BEGIN IMMEDIATE: a transaction that reads first and asks for the write lock
later fails at once when another got it, whatever the timeout.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sqlite_schema import migrate
from k3server.document import SubmissionDocument, SubmissionSummary, summarise
from k3server.ports import Added, StoreFullError
from k3server.submission import NewSubmission, Submission, SubmissionRow
from k3server.trust import NonceStanding, NonceTicket, nonce_standing

__all__ = ["SqliteIndex"]

_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
_LOCK_WAIT_S: Final = 10.0
_ROW: Final = (
    "sequence, bundle_sha256, blob_sha256, blob_size_bytes, repository, pull_request, commit_sha, "
    "trust, nonce_standing, received_at_utc, summary"
)
# Parts of these statements are constants of this module; values only ever come as parameters.
_INSERT: Final = (
    "INSERT INTO submissions (bundle_sha256, blob_sha256, blob_size_bytes, repository, "
    "repository_key, pull_request, commit_sha, trust, nonce_standing, received_at_utc, summary, "
    "document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_GET: Final = f"SELECT {_ROW}, document FROM submissions WHERE bundle_sha256 = ?"  # noqa: S608
_FIND_BLOB: Final = (
    f"SELECT {_ROW}, document FROM submissions WHERE blob_sha256 = ? ORDER BY sequence LIMIT 1"  # noqa: S608
)
_PAGE: Final = "sequence < ? ORDER BY sequence DESC LIMIT ?"
_LATEST: Final = f"SELECT {_ROW} FROM submissions WHERE {_PAGE}"  # noqa: S608
_OF_PULL: Final = (
    f"SELECT {_ROW} FROM submissions WHERE repository_key = ? AND pull_request = ? AND {_PAGE}"  # noqa: S608
)
_OF_COMMIT: Final = (
    f"SELECT {_ROW} FROM submissions WHERE repository_key = ? AND commit_sha = ? AND {_PAGE}"  # noqa: S608
)
_END: Final = 2**63 - 1


class SqliteIndex:
    """A `SubmissionIndex` in one file, with the write-ahead log beside it."""

    def __init__(self, path: Path) -> None:
        """Open or create the database and apply missing migrations.

        Raises:
            sqlite3.Error: The file cannot be opened or is not a database.
            MachineError: A newer registry wrote the database.
        """
        self._path = path
        # One connection stays open: closing the last one would write the whole log back each time.
        self._keeper = self._connect()
        self._keeper.execute("PRAGMA journal_mode = WAL")
        migrate(self._keeper)

    def close(self) -> None:
        """Close the database; the log is written back."""
        self._keeper.close()

    def add(self, new: NewSubmission) -> Added:
        """Insert a submission and judge its nonce, in one transaction; or get the one there."""
        digest = new.document.bundle_sha256
        with self._writing() as connection:
            existing = _one(connection, _GET, digest)
            if existing is not None:
                return Added(existing, created=False)
            standing = _judge_nonce(connection, new)
            connection.execute(_INSERT, _values(new, standing))
            if standing == "issued-here":
                use = (new.document.manifest.run.nonce, digest)
                connection.execute("INSERT INTO nonce_uses VALUES (?, ?)", use)
            added = _one(connection, _GET, digest)
        if added is None:
            raise LookupError(f"Submission {digest} is not there after it was inserted.")
        return Added(added, created=True)

    def get(self, bundle_sha256: str) -> Submission | None:
        """The submission with this bundle digest."""
        with closing(self._connect()) as connection:
            return _one(connection, _GET, bundle_sha256)

    def find_blob(self, blob_sha256: str) -> Submission | None:
        """The submission that was made from this archive."""
        with closing(self._connect()) as connection:
            return _one(connection, _FIND_BLOB, blob_sha256)

    def latest(self, *, limit: int, before: int | None = None) -> tuple[SubmissionRow, ...]:
        """Submissions, newest first."""
        return self._rows(_LATEST, (_upper(before), limit))

    def of_pull(
        self, repository: str, pull_request: int, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a pull request, newest first."""
        return self._rows(_OF_PULL, (repository.lower(), pull_request, _upper(before), limit))

    def of_commit(
        self, repository: str, commit_sha: str, *, limit: int, before: int | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a commit, newest first."""
        return self._rows(_OF_COMMIT, (repository.lower(), commit_sha, _upper(before), limit))

    def issue_nonce(self, ticket: NonceTicket) -> None:
        """Record a nonce."""
        change = ticket.change
        values = (
            ticket.nonce,
            change.repository,
            change.pull_request,
            change.commit_sha,
            ticket.plan_sha256,
            _utc_text(ticket.issued_at),
            _utc_text(ticket.expires_at),
        )
        try:
            with self._writing() as connection:
                connection.execute("INSERT INTO nonces VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            raise KeyError(ticket.nonce) from None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False
        )
        # An acknowledged submission must survive a power cut, hence FULL.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                # A full disk makes SQLite roll back by itself.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                    raise StoreFullError(str(error)) from error
                raise

    def _rows(self, statement: str, parameters: Sequence[object]) -> tuple[SubmissionRow, ...]:
        with closing(self._connect()) as connection:
            return tuple(_row(each) for each in connection.execute(statement, parameters))


def _upper(before: int | None) -> int:
    return _END if before is None else before


def _utc_text(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"Expected an aware time, found {moment.isoformat()} without a zone.")
    return moment.astimezone(UTC).strftime(_TIME)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _values(new: NewSubmission, standing: NonceStanding) -> tuple[object, ...]:
    change = new.document.manifest.change
    return (
        new.document.bundle_sha256,
        new.blob_sha256,
        new.blob_size_bytes,
        change.repository,
        change.repository.lower(),
        change.pull_request,
        change.commit_sha,
        new.trust,
        standing,
        _utc_text(new.received_at),
        summarise(new.document).model_dump_json(by_alias=True),
        new.document.model_dump_json(by_alias=True),
    )


def _judge_nonce(connection: sqlite3.Connection, new: NewSubmission) -> NonceStanding:
    run = new.document.manifest.run
    found = connection.execute("SELECT * FROM nonces WHERE nonce = ?", (run.nonce,)).fetchone()
    used = connection.execute("SELECT 1 FROM nonce_uses WHERE nonce = ?", (run.nonce,)).fetchone()
    return nonce_standing(
        run,
        new.document.manifest.change,
        ticket=None if found is None else _ticket(found),
        used_by_another=used is not None,
        received_at=new.received_at,
    )


def _ticket(row: tuple[str, str, int, str, str, str, str]) -> NonceTicket:
    nonce, repository, pull_request, commit_sha, plan, issued, expires = row
    return NonceTicket(
        nonce=nonce,
        change=ChangeUnderTest(
            repository=repository, pull_request=pull_request, commit_sha=commit_sha
        ),
        plan_sha256=plan,
        issued_at=_moment(issued),
        expires_at=_moment(expires),
    )


def _one(connection: sqlite3.Connection, statement: str, key: str) -> Submission | None:
    found = connection.execute(statement, (key,)).fetchone()
    if found is None:
        return None
    *row, document = found
    return Submission(_row(tuple(row)), SubmissionDocument.model_validate_json(document))


def _row(values: tuple[object, ...]) -> SubmissionRow:
    names = [name.strip() for name in _ROW.split(",")]
    field = dict(zip(names, values, strict=True))
    summary = SubmissionSummary.model_validate_json(str(field["summary"]))
    change = ChangeUnderTest.model_validate(
        {name: field[name] for name in ("repository", "pull_request", "commit_sha")}
    )
    kept = ("sequence", "bundle_sha256", "blob_sha256", "blob_size_bytes", "trust")
    plain = {name: field[name] for name in (*kept, "nonce_standing")}
    return SubmissionRow(
        change=change,
        received_at=_moment(str(field["received_at_utc"])),
        summary=summary,
        **plain,  # type: ignore[arg-type]
    )

"""Submissions and nonces in a database."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sql.database import Database, insert_new
from k3server.adapters.sql.listings import first_listing, note_submission, refresh
from k3server.adapters.sql.tables import (
    attributions,
    listings,
    nonce_uses,
    nonces,
    submissions,
    witnesses,
)
from k3server.document import SubmissionDocument, SubmissionSummary, summarise
from k3server.ports import Added
from k3server.submission import NewSubmission, Submission, SubmissionRow
from k3server.trust import (
    LADDER,
    Attribution,
    NonceStanding,
    NonceTicket,
    Space,
    nonce_standing,
)

__all__ = ["SqlIndex"]

_ROW: Final = (
    *(c for c in submissions.columns if c.name not in {"document", "trust"}),
    *(
        listings.c[name]
        for name in ("trust", "identity", "organisation", "space", "state", "reason")
    ),
)
_END: Final = 2**63 - 1


class SqlIndex:
    """A `SubmissionIndex` in a database."""

    def __init__(self, database: Database, *, tells: bool = False) -> None:
        """Keep the database.

        Args:
            database: Where everything is.
            tells: Whether a forge is told of what happens; each change then notes its pull request
                in the outbox, in its own transaction.
        """
        self._database = database
        self._tells = tells

    def add(self, new: NewSubmission) -> Added:
        """Insert a submission and judge its nonce, in one transaction; or get the one there."""
        digest = new.document.bundle_sha256
        with self._database.writing() as connection:
            created = _one(connection, digest) is None and _insert(connection, new)
            if new.attribution is not None:
                _attribute(connection, digest, new.attribution, new.received_at)
            self._note(connection, digest, new.received_at)
            added = _one(connection, digest)
        if added is None:
            raise LookupError(f"Submission {digest} is not there after it was inserted.")
        return Added(added, created=created)

    def get(self, bundle_sha256: str) -> Submission | None:
        """The submission with this bundle digest."""
        with self._database.reading() as connection:
            return _one(connection, bundle_sha256)

    def find_blob(self, blob_sha256: str) -> Submission | None:
        """The submission that was made from this archive."""
        first = (
            sa.select(submissions.c.bundle_sha256)
            .where(submissions.c.blob_sha256 == blob_sha256)
            .order_by(submissions.c.sequence)
            .limit(1)
        )
        with self._database.reading() as connection:
            digest = connection.execute(first).scalar_one_or_none()
            return None if digest is None else _one(connection, digest)

    def every(self, *, limit: int, before: int | None = None) -> tuple[SubmissionRow, ...]:
        """All submissions, newest first."""
        return self._page((), limit, before)

    def latest(
        self, *, limit: int, before: int | None = None, space: Space | None = None
    ) -> tuple[SubmissionRow, ...]:
        """Submissions, newest first."""
        return self._page(_shown(space), limit, before)

    def of_pull(
        self,
        repository: str,
        pull_request: int,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a pull request, newest first."""
        return self._page((*_of_pull(repository, pull_request), *_shown(space)), limit, before)

    def of_commit(
        self,
        repository: str,
        commit_sha: str,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a commit, newest first."""
        wanted = (
            listings.c.repository_key == repository.lower(),
            listings.c.commit_sha == commit_sha,
        )
        return self._page((*wanted, *_shown(space)), limit, before)

    def of_plan(
        self,
        plan_sha256: str,
        *,
        limit: int,
        before: int | None = None,
        space: Space | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """Submissions of a plan, newest first."""
        wanted = (listings.c.plan_sha256 == plan_sha256,)
        return self._page((*wanted, *_shown(space)), limit, before)

    def search(
        self,
        *,
        limit: int,
        repository: str | None = None,
        digest_prefix: str | None = None,
        subject: str | None = None,
    ) -> tuple[SubmissionRow, ...]:
        """Submissions that fit what is given."""
        wanted: list[sa.ColumnElement[bool]] = []
        if repository is not None:
            wanted.append(listings.c.repository_key == repository.lower())
        if digest_prefix is not None:
            # Ranges and not LIKE: an index serves each, and nothing in the text is a wildcard. As
            # one condition with OR, the planner would look through everything in order of arrival.
            found = sa.union(
                *(
                    sa.select(listings.c.sequence).where(
                        column >= digest_prefix, column < f"{digest_prefix}g"
                    )
                    for column in (listings.c.bundle_sha256, listings.c.commit_sha)
                )
            )
            wanted.append(listings.c.sequence.in_(found))
        if subject is not None:
            wanted.append(sa.func.lower(listings.c.subject) == subject.lower())
        return self._page((*wanted, *_shown(None)), limit, None)

    def latest_good(self, repository: str, pull_request: int) -> SubmissionRow | None:
        """The newest PASS that counts."""
        counts = (
            listings.c.status == "PASS",
            listings.c.state == "visible",
            listings.c.space == "main",
        )
        rows = self._page((*_of_pull(repository, pull_request), *counts), 1, None)
        return rows[0] if rows else None

    def attribute(self, bundle_sha256: str, attribution: Attribution, at: datetime) -> Submission:
        """Note that someone stands behind a submission."""
        with self._database.writing() as connection:
            if _one(connection, bundle_sha256) is None:
                raise KeyError(bundle_sha256)
            _attribute(connection, bundle_sha256, attribution, at)
            self._note(connection, bundle_sha256, at)
            found = _one(connection, bundle_sha256)
        if found is None:
            raise KeyError(bundle_sha256)
        return found

    def add_witness(self, bundle_sha256: str, witness_sha256: str, at: datetime) -> None:
        """Note that two submissions agree."""
        pair = (bundle_sha256, witness_sha256)
        with self._database.writing() as connection:
            for one, other in (pair, pair[::-1]):
                row = {"bundle_sha256": one, "witness_sha256": other, "at_utc": at}
                insert_new(connection, witnesses, row)
            for each in pair:
                refresh(connection, each)
                self._note(connection, each, at)

    def issue_nonce(self, ticket: NonceTicket) -> None:
        """Record a nonce."""
        change = ticket.change
        values = {
            "nonce": ticket.nonce,
            "repository": change.repository,
            "pull_request": change.pull_request,
            "commit_sha": change.commit_sha,
            "plan_sha256": ticket.plan_sha256,
            "issued_at_utc": ticket.issued_at,
            "expires_at_utc": ticket.expires_at,
            "signer": ticket.signer,
        }
        with self._database.writing() as connection:
            if not insert_new(connection, nonces, values):
                raise KeyError(ticket.nonce)

    def _note(self, connection: sa.Connection, bundle_sha256: str, at: datetime) -> None:
        if self._tells:
            note_submission(connection, bundle_sha256, at)

    def _page(
        self, wanted: Sequence[sa.ColumnElement[bool]], limit: int, before: int | None
    ) -> tuple[SubmissionRow, ...]:
        upper = _END if before is None else before
        statement = (
            sa.select(*_ROW)
            .join_from(listings, submissions, listings.c.sequence == submissions.c.sequence)
            .where(*wanted, listings.c.sequence < upper)
            .order_by(listings.c.sequence.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            return tuple(_row(each) for each in connection.execute(statement).mappings())


def _of_pull(repository: str, pull_request: int) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        listings.c.repository_key == repository.lower(),
        listings.c.pull_request == pull_request,
    )


def _shown(space: Space | None) -> tuple[sa.ColumnElement[bool], ...]:
    shown = (listings.c.state != "quarantined",)
    return shown if space is None else (*shown, listings.c.space == space)


def _insert(connection: sa.Connection, new: NewSubmission) -> bool:
    standing = _judge_nonce(connection, new)
    if not insert_new(connection, submissions, _values(new, standing)):
        return False
    digest = new.document.bundle_sha256
    if standing == "issued-here":
        use = {"nonce": new.document.manifest.run.nonce, "bundle_sha256": digest}
        connection.execute(nonce_uses.insert().values(use))
    sequence = connection.execute(
        sa.select(submissions.c.sequence).where(submissions.c.bundle_sha256 == digest)
    ).scalar_one()
    connection.execute(listings.insert().values(first_listing(new, sequence)))
    return True


def _attribute(
    connection: sa.Connection, digest: str, attribution: Attribution, at: datetime
) -> None:
    row = {
        "bundle_sha256": digest,
        "identity": attribution.identity,
        "organisation": attribution.organisation,
        "trust": attribution.trust,
        "at_utc": at,
    }
    if insert_new(connection, attributions, row):
        refresh(connection, digest)


def _values(new: NewSubmission, standing: NonceStanding) -> dict[str, object]:
    change = new.document.manifest.change
    trust = LADDER[0] if new.attribution is None else new.attribution.trust
    return {
        "bundle_sha256": new.document.bundle_sha256,
        "blob_sha256": new.blob_sha256,
        "blob_size_bytes": new.blob_size_bytes,
        "repository": change.repository,
        "repository_key": change.repository.lower(),
        "pull_request": change.pull_request,
        "commit_sha": change.commit_sha,
        "trust": trust,
        "nonce_standing": standing,
        "received_at_utc": new.received_at,
        "summary": summarise(new.document).model_dump_json(by_alias=True),
        "document": new.document.model_dump_json(by_alias=True),
    }


def _judge_nonce(connection: sa.Connection, new: NewSubmission) -> NonceStanding:
    run = new.document.manifest.run
    # The lock makes a second bundle with this nonce wait until the first one's use is known.
    asked = sa.select(nonces).where(nonces.c.nonce == run.nonce).with_for_update()
    found = connection.execute(asked).mappings().one_or_none()
    used = connection.execute(sa.select(nonce_uses).where(nonce_uses.c.nonce == run.nonce)).first()
    return nonce_standing(
        run,
        new.document.manifest.change,
        new.document.signer_fingerprint,
        ticket=None if found is None else _ticket(found),
        used_by_another=used is not None,
        received_at=new.received_at,
    )


def _ticket(row: Mapping[Any, Any]) -> NonceTicket:
    return NonceTicket(
        nonce=row["nonce"],
        change=_change(row),
        plan_sha256=row["plan_sha256"],
        issued_at=row["issued_at_utc"],
        expires_at=row["expires_at_utc"],
        signer=row["signer"],
    )


def _one(connection: sa.Connection, bundle_sha256: str) -> Submission | None:
    statement = (
        sa.select(*_ROW, submissions.c.document)
        .join_from(listings, submissions, listings.c.sequence == submissions.c.sequence)
        .where(listings.c.bundle_sha256 == bundle_sha256)
    )
    found = connection.execute(statement).mappings().one_or_none()
    if found is None:
        return None
    return Submission(_row(found), _document(found["document"]))


def _row(found: Mapping[Any, Any]) -> SubmissionRow:
    return SubmissionRow(
        sequence=found["sequence"],
        bundle_sha256=found["bundle_sha256"],
        blob_sha256=found["blob_sha256"],
        blob_size_bytes=found["blob_size_bytes"],
        change=_change(found),
        trust=found["trust"],
        identity=found["identity"],
        organisation=found["organisation"],
        space=found["space"],
        state=found["state"],
        reason=found["reason"],
        nonce_standing=found["nonce_standing"],
        received_at=found["received_at_utc"],
        summary=_summary(found["summary"]),
    )


# Both are functions of the text alone and give frozen records, so a remembered one is never stale.
@lru_cache(maxsize=512)
def _summary(text: str) -> SubmissionSummary:
    return SubmissionSummary.model_validate_json(text)


@lru_cache(maxsize=32)
def _document(text: str) -> SubmissionDocument:
    return SubmissionDocument.model_validate_json(text)


def _change(row: Mapping[Any, Any]) -> ChangeUnderTest:
    names = ("repository", "pull_request", "commit_sha")
    return ChangeUnderTest.model_validate({name: row[name] for name in names})

"""Wanted evidence in a database."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sql.database import Database, insert_new
from k3server.adapters.sql.tables import listings, wanted
from k3server.board_ports import Wanted

__all__ = ["SqlBoard"]


class SqlBoard:
    """A `Board` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, asked: Wanted) -> Wanted:
        """Put something on the board; or get the same thing that is there."""
        same = {
            "repository": asked.change.repository.lower(),
            "pull_request": asked.change.pull_request,
            "commit_sha": asked.change.commit_sha,
            "tier": asked.tier,
            "subject": asked.subject,
            "cell_id": asked.cell_id,
        }
        more = {
            "wanted_id": asked.wanted_id,
            "note": asked.note,
            "asked_by": asked.asked_by,
            "asked_at_utc": asked.asked_at,
        }
        key = sa.and_(*(wanted.c[name] == value for name, value in same.items()))
        with self._database.writing() as connection:
            if not insert_new(connection, wanted, {**same, **more}):
                # Asked for again after it was taken off: it is wanted again.
                connection.execute(wanted.update().where(key).values(closed_at_utc=None))
            found = connection.execute(_selected().where(key)).mappings().one()
        return _wanted(found)

    def claim(self, wanted_id: str, identity: str, *, now: datetime, until: datetime) -> bool:
        """Claim, or claim for longer."""
        free = sa.or_(
            wanted.c.claimed_by.is_(None),
            wanted.c.claimed_until_utc <= now,
            wanted.c.claimed_by == identity,
        )
        change = {"claimed_by": identity, "claimed_until_utc": until}
        return self._change(wanted_id, free, change)

    def release(self, wanted_id: str, identity: str | None, now: datetime) -> bool:
        """Give a claim back."""
        held = wanted.c.claimed_until_utc > now
        if identity is not None:
            held = sa.and_(held, wanted.c.claimed_by == identity)
        return self._change(wanted_id, held, {"claimed_by": None, "claimed_until_utc": None})

    def close(self, wanted_id: str, now: datetime) -> bool:
        """Take something off the board."""
        try:
            return self._change(wanted_id, sa.true(), {"closed_at_utc": now})
        except KeyError:
            return False

    def wanted(self, *, limit: int) -> tuple[Wanted, ...]:
        """What is on the board, the newest first."""
        statement = (
            _selected()
            .where(wanted.c.closed_at_utc.is_(None))
            .order_by(wanted.c.asked_at_utc.desc(), wanted.c.wanted_id)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return tuple(_wanted(row) for row in connection.execute(statement).mappings())

    def one(self, wanted_id: str) -> Wanted | None:
        """One thing on the board."""
        with self._database.reading() as connection:
            found = connection.execute(_selected().where(_open(wanted_id))).mappings().first()
        return None if found is None else _wanted(found)

    def _change(
        self, wanted_id: str, condition: sa.ColumnElement[bool], change: Mapping[str, object]
    ) -> bool:
        changed = wanted.update().where(_open(wanted_id), condition).values(change)
        there = sa.select(wanted.c.wanted_id).where(_open(wanted_id))
        with self._database.writing() as connection:
            if connection.execute(changed.returning(wanted.c.wanted_id)).first() is not None:
                return True
            if connection.execute(there).first() is None:
                raise KeyError(wanted_id)
        return False


def _open(wanted_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(wanted.c.wanted_id == wanted_id, wanted.c.closed_at_utc.is_(None))


def _selected() -> sa.Select[Any]:
    # The newest submission that counts and passes; a cell of its own is looked at by people.
    fulfilled = (
        sa.select(listings.c.bundle_sha256)
        .where(
            listings.c.repository_key == wanted.c.repository,
            listings.c.pull_request == wanted.c.pull_request,
            listings.c.commit_sha == wanted.c.commit_sha,
            listings.c.tier == wanted.c.tier,
            listings.c.subject == wanted.c.subject,
            listings.c.status == "PASS",
            listings.c.space == "main",
            listings.c.state == "visible",
        )
        .order_by(listings.c.sequence.desc())
        .limit(1)
        .scalar_subquery()
    )
    return sa.select(*wanted.columns, fulfilled.label("fulfilled_by"))


def _wanted(row: Mapping[Any, Any]) -> Wanted:
    return Wanted(
        wanted_id=row["wanted_id"],
        change=ChangeUnderTest(
            repository=row["repository"],
            pull_request=row["pull_request"],
            commit_sha=row["commit_sha"],
        ),
        tier=row["tier"],
        subject=row["subject"],
        cell_id=row["cell_id"],
        note=row["note"],
        asked_by=row["asked_by"],
        asked_at=row["asked_at_utc"],
        claimed_by=row["claimed_by"],
        claimed_until=row["claimed_until_utc"],
        fulfilled_by=row["fulfilled_by"],
    )

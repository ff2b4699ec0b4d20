"""What the forge is still to be told, in a database."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from k3server.adapters.sql.database import Database, insert_new
from k3server.adapters.sql.tables import deliveries, outbox, pulls
from k3server.forge_ports import Notice, PullState

__all__ = ["SqlOutbox", "note_in"]


def note_in(connection: sa.Connection, repository: str, pull_request: int, at: datetime) -> None:
    """Note in an open transaction that something happened to a pull request."""
    key = {"repository_key": repository.lower(), "pull_request": pull_request}
    first = {"generation": 1, "attempts": 0, "due_at_utc": at}
    if not insert_new(connection, outbox, {**key, **first}):
        connection.execute(
            outbox.update()
            .where(_is(outbox, repository, pull_request))
            .values(generation=outbox.c.generation + 1, attempts=0, due_at_utc=at)
        )


class SqlOutbox:
    """An `Outbox` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, repository: str, pull_request: int, at: datetime) -> None:
        """Something may have happened to a pull request."""
        with self._database.writing() as connection:
            note_in(connection, repository, pull_request, at)

    def due(self, now: datetime, *, limit: int, lease_s: float) -> tuple[Notice, ...]:
        """Notices whose time has come."""
        statement = (
            sa.select(outbox)
            .where(outbox.c.due_at_utc <= now)
            .order_by(outbox.c.due_at_utc)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with self._database.writing() as connection:
            rows = connection.execute(statement).all()
            for row in rows:
                connection.execute(
                    outbox.update()
                    .where(_is(outbox, row.repository_key, row.pull_request))
                    .values(due_at_utc=now + timedelta(seconds=lease_s))
                )
        return tuple(
            Notice(row.repository_key, row.pull_request, row.generation, row.attempts)
            for row in rows
        )

    def done(self, notice: Notice) -> None:
        """The forge was told."""
        with self._database.writing() as connection:
            connection.execute(
                outbox.delete().where(
                    _is(outbox, notice.repository, notice.pull_request),
                    outbox.c.generation == notice.generation,
                )
            )

    def put_off(self, notice: Notice, until: datetime, problem: str) -> None:
        """The forge could not be told."""
        with self._database.writing() as connection:
            connection.execute(
                outbox.update()
                .where(
                    _is(outbox, notice.repository, notice.pull_request),
                    outbox.c.generation == notice.generation,
                )
                .values(due_at_utc=until, attempts=notice.attempts + 1, problem=problem[:500])
            )

    def waiting(self) -> int:
        """Number of notices."""
        with self._database.reading() as connection:
            return int(
                connection.execute(sa.select(sa.func.count()).select_from(outbox)).scalar_one()
            )

    def keep_pull(self, repository: str, pull_request: int, state: PullState) -> None:
        """Remember what the forge said and was told."""
        key = {"repository_key": repository.lower(), "pull_request": pull_request}
        values = {
            "head_sha": state.head_sha,
            "is_open": int(state.is_open),
            "told_sha256": state.told_sha256,
            "checked_at_utc": state.checked_at,
        }
        with self._database.writing() as connection:
            if not insert_new(connection, pulls, {**key, **values}):
                same = _is(pulls, repository, pull_request)
                connection.execute(pulls.update().where(same).values(values))

    def pull(self, repository: str, pull_request: int) -> PullState | None:
        """What the forge said last."""
        statement = sa.select(pulls).where(_is(pulls, repository, pull_request))
        with self._database.reading() as connection:
            row = connection.execute(statement).first()
        if row is None:
            return None
        return PullState(row.head_sha, bool(row.is_open), row.told_sha256, row.checked_at_utc)

    def is_first_delivery(self, guid: str, at: datetime) -> bool:
        """Remember a delivery."""
        with self._database.writing() as connection:
            return insert_new(connection, deliveries, {"guid": guid, "received_at_utc": at})


def _is(table: sa.Table, repository: str, pull_request: int) -> sa.ColumnElement[bool]:
    return sa.and_(
        table.c.repository_key == repository.lower(), table.c.pull_request == pull_request
    )

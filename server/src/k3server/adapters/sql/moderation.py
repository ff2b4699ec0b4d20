"""Decisions of operators in a database."""

from datetime import datetime
from typing import Final

import sqlalchemy as sa

from k3server.account_ports import Act, Action, NoEvidenceError
from k3server.adapters.sql.database import Database, insert_new
from k3server.adapters.sql.listings import note_submission, refresh
from k3server.adapters.sql.tables import acts, bans, listings, witnesses

__all__ = ["SqlModeration"]

_END: Final = 2**63 - 1


class SqlModeration:
    """A `Moderation` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def decide(self, action: Action, target: str, *, actor: str, reason: str, at: datetime) -> None:
        """Decide, and note it in the log."""
        values = {"at_utc": at, "actor": actor, "action": action, "target": target}
        with self._database.writing() as connection:
            match action:
                case "ban":
                    ban = {"banned": target, "reason": reason, "at_utc": at}
                    insert_new(connection, bans, ban)
                case "unban":
                    gone = bans.delete().where(bans.c.banned == target)
                    if connection.execute(gone.returning(bans.c.banned)).first() is None:
                        raise KeyError(target)
                case _:
                    state = self._lock(connection, target)
                    if action == "audit" and state == "retracted":
                        raise NoEvidenceError(target)
            connection.execute(acts.insert().values(**values, reason=reason))
            if action not in {"ban", "unban"}:
                for each in (target, *_witnesses_of(connection, target)):
                    refresh(connection, each)
                    # A command of the operator does not know whether a forge is told; a registry
                    # that tells none leaves the notice where it is.
                    note_submission(connection, each, at)

    def ban_of(self, *banned: str) -> str | None:
        """The reason for which one of these is banned."""
        statement = sa.select(bans.c.reason).where(bans.c.banned.in_(banned)).limit(1)
        with self._database.reading() as connection:
            reason: str | None = connection.execute(statement).scalar_one_or_none()
        return reason

    def acts(self, *, limit: int, before: int | None = None) -> tuple[Act, ...]:
        """Decisions, newest first."""
        upper = _END if before is None else before
        statement = (
            sa.select(acts)
            .where(acts.c.sequence < upper)
            .order_by(acts.c.sequence.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        return tuple(
            Act(row.sequence, row.at_utc, row.actor, row.action, row.target, row.reason)
            for row in rows
        )

    def _lock(self, connection: sa.Connection, bundle_sha256: str) -> str:
        """Hold the row of a submission for this transaction; returns the submission's state."""
        statement = sa.select(listings.c.state).where(listings.c.bundle_sha256 == bundle_sha256)
        state: str | None = connection.execute(statement.with_for_update()).scalar_one_or_none()
        if state is None:
            raise KeyError(bundle_sha256)
        return state


def _witnesses_of(connection: sa.Connection, bundle_sha256: str) -> list[str]:
    statement = sa.select(witnesses.c.witness_sha256).where(
        witnesses.c.bundle_sha256 == bundle_sha256
    )
    return [row.witness_sha256 for row in connection.execute(statement)]

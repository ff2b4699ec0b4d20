"""API tokens in a database."""

from datetime import datetime
from typing import cast

import sqlalchemy as sa

from k3server.account_ports import Scope, Token
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.tables import acts, tokens

__all__ = ["SqlAccounts"]


class SqlAccounts:
    """`Accounts` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token, actor: str) -> None:
        """Keep a token, and note who made it."""
        scopes = " ".join(sorted(token.scopes))
        with self._database.writing() as connection:
            connection.execute(
                tokens.insert().values(
                    token_id=token.token_id,
                    secret_sha256=token.secret_sha256,
                    account=token.account,
                    organisation=token.organisation,
                    scopes=scopes,
                    created_at_utc=token.created_at,
                    expires_at_utc=token.expires_at,
                )
            )
            connection.execute(
                acts.insert().values(
                    at_utc=token.created_at,
                    actor=actor,
                    action="token",
                    target=token.token_id,
                    reason=f"For {token.account}: {scopes}.",
                )
            )

    def find(self, token_id: str) -> Token | None:
        """The token with this id."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.token_id == token_id)).first()
        return None if row is None else _token(row)

    def revoke(self, token_id: str, actor: str, at: datetime) -> bool:
        """End a token."""
        working = sa.and_(tokens.c.token_id == token_id, tokens.c.revoked_at_utc.is_(None))
        ended = tokens.update().where(working).values(revoked_at_utc=at)
        with self._database.writing() as connection:
            row = connection.execute(ended.returning(tokens.c.account)).first()
            if row is None:
                return False
            connection.execute(
                acts.insert().values(
                    at_utc=at,
                    actor=actor,
                    action="revoke",
                    target=token_id,
                    reason=f"Of {row.account}.",
                )
            )
            return True

    def tokens(self) -> tuple[Token, ...]:
        """Every token, the newest first."""
        statement = sa.select(tokens).order_by(tokens.c.created_at_utc.desc(), tokens.c.token_id)
        with self._database.reading() as connection:
            return tuple(_token(row) for row in connection.execute(statement))


def _token(row: sa.Row[tuple[object, ...]]) -> Token:
    return Token(
        token_id=row.token_id,
        secret_sha256=row.secret_sha256,
        account=row.account,
        organisation=row.organisation,
        scopes=frozenset(cast("list[Scope]", row.scopes.split())),
        created_at=row.created_at_utc,
        expires_at=row.expires_at_utc,
        revoked_at=row.revoked_at_utc,
    )

"""Connections to SQLite or PostgreSQL, and what their errors mean.

Writers on SQLite begin with BEGIN IMMEDIATE: a transaction that reads first and asks for the write
lock later fails at once when another got it, whatever the timeout.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from k3server.adapters.sql.schema import upgrade
from k3server.ports import StoreFullError, StoreUnavailableError

__all__ = ["Database", "insert_new", "make_engine"]

_LOCK_WAIT_S: Final = 10.0
_CONNECT_S: Final = 5
_POOL: Final = 8
_OVERFLOW: Final = 40
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DISK_FULL: Final = "53100"
# Connection lost or refused, no resources, shutting down or starting up.
_AWAY: Final = ("08", "53", "57")


class Database:
    """A pool of connections to one database of the current schema."""

    def __init__(self, url: str | sa.URL) -> None:
        """Connect and apply missing migrations.

        Args:
            url: `sqlite:///PATH` or `postgresql+psycopg://USER@HOST:PORT/NAME`.

        Raises:
            sqlalchemy.exc.DBAPIError, sqlite3.Error: It cannot be opened or is not a database.
            MachineError: A newer registry wrote the database.
        """
        self._engine = make_engine(url)
        self._writer = self._engine.execution_options(writing=True)
        try:
            with self._writer.begin() as connection:
                upgrade(connection)
        except BaseException:
            self.close()
            raise

    @classmethod
    def in_file(cls, path: Path) -> Self:
        """A SQLite database in this file, with its write-ahead log beside it."""
        return cls(sa.URL.create("sqlite", database=str(path)))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database.

        Raises:
            StoreUnavailableError: The database does not answer.
        """
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write; rolled back when the block raises.

        Raises:
            StoreFullError: There is no room; nothing is kept.
            StoreUnavailableError: The database does not answer.
        """
        with _translated(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; SQLite's log is written back."""
        self._engine.dispose()


def make_engine(url: str | sa.URL) -> sa.Engine:
    """An engine whose transactions are real on both databases."""
    made = sa.make_url(url)
    if made.get_backend_name() == "sqlite":
        engine = sa.create_engine(
            made,
            pool_size=_POOL,
            max_overflow=_OVERFLOW,
            poolclass=sa.QueuePool,
            connect_args={"timeout": _LOCK_WAIT_S, "check_same_thread": False},
        )
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    return sa.create_engine(
        made,
        pool_size=_POOL,
        max_overflow=_OVERFLOW,
        # A restarted database is noticed before a request is built on a dead connection.
        pool_pre_ping=True,
        connect_args={"connect_timeout": _CONNECT_S},
    )


def insert_new(connection: sa.Connection, table: sa.Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless one with the same key is there; the database decides who wins.

    Returns:
        Whether this call inserted it.
    """
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table).values(**values).on_conflict_do_nothing()
    key = next(iter(table.primary_key.columns))
    return connection.execute(statement.returning(key)).first() is not None


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own idea of transactions off: BEGIN and COMMIT are said explicitly.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    # An acknowledged submission must survive a power cut, hence FULL.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sa.exc.TimeoutError as error:
        raise StoreUnavailableError(str(error)) from error
    except sa.exc.DBAPIError as error:
        _raise_translated(error)
        raise


def _raise_translated(error: sa.exc.DBAPIError) -> None:
    cause: Any = error.orig
    number = getattr(cause, "sqlite_errorcode", None)
    state = getattr(cause, "sqlstate", None)
    if number == sqlite3.SQLITE_FULL or state == _DISK_FULL:
        raise StoreFullError(str(cause)) from error
    away = isinstance(error, sa.exc.OperationalError) and (
        # No state at all: the connection could not be made.
        state.startswith(_AWAY) if state is not None else number is None
    )
    if away or number in _BUSY or error.connection_invalidated:
        raise StoreUnavailableError(str(cause)) from error

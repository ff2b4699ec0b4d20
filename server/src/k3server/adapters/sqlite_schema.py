"""Brings a SQLite database to the current schema, forward only."""

import re
import sqlite3
from importlib import resources
from typing import Final

from k3server.errors import MachineError

__all__ = ["SCHEMA_VERSION", "migrate"]

_NAME: Final = re.compile(r"^(\d{4})_[a-z_]+\.sql$")


def _migrations() -> tuple[tuple[int, str], ...]:
    folder = resources.files("k3server") / "migrations"
    found = [
        (int(match[1]), entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if (match := _NAME.match(entry.name))
    ]
    return tuple(sorted(found))


SCHEMA_VERSION: Final = len(_migrations())
"""Version of a database that every migration was applied to."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the migrations that are missing, each in a transaction of its own.

    Args:
        connection: An open connection in autocommit mode.

    Raises:
        MachineError: A newer registry wrote the database.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise MachineError(
            f"The database has schema version {version}; "
            f"this registry knows versions up to {SCHEMA_VERSION}.",
            "Start the newer registry again, or give --data another folder.",
        )
    for number, script in _migrations()[version:]:
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;"
            )
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

"""Runs the SQL of a revision on the engine at hand."""

import sqlite3
from collections.abc import Iterator
from importlib import resources

from alembic import op

__all__ = ["run_script", "statements"]


def run_script(name: str) -> None:
    """Run `migrations/ENGINE/NAME.sql` in the transaction of the revision."""
    connection = op.get_bind()
    engine = connection.dialect.name
    text = (resources.files("k3server") / "migrations" / engine / f"{name}.sql").read_text("utf-8")
    for statement in statements(text) if engine == "sqlite" else (text,):
        connection.exec_driver_sql(statement)


def statements(text: str) -> Iterator[str]:
    """The statements of a script one by one; SQLite's driver takes no more at a time."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(
            f"Expected a whole statement at the end, found {statement.strip()[:80]!r}."
        )

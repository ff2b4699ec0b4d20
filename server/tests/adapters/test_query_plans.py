"""What pages ask SQLite for is found by an index: nothing is looked through or sorted."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from k3server.adapters.sql.index import SqlIndex
from k3server_testing.databases import sqlite_database

PULL = ("example/engine", 7)


@contextmanager
def plans() -> Iterator[list[str]]:
    """The steps of SQLite's plan for each SELECT in the block."""
    found: list[str] = []

    def explain(_: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        del rest
        if statement.startswith("SELECT"):
            rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found.extend(row[3] for row in rows)

    sa.event.listen(sa.Engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", explain)


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda found: found.latest(limit=50, space="main"), "listings_by_space"),
        (lambda found: found.of_pull(*PULL, limit=50, space="main"), "listings_by_pull_space"),
        (lambda found: found.of_pull(*PULL, limit=50), "listings_by_pull"),
        (lambda found: found.latest_good(*PULL), "listings_by_pull_space"),
        (lambda found: found.of_commit("a/b", "ab" * 20, limit=50), "listings_by_commit"),
        (lambda found: found.of_plan("ab" * 32, limit=50), "listings_by_plan"),
        (lambda found: found.get("ab" * 32), "sqlite_autoindex_listings_1"),
        (lambda found: found.search(limit=50, digest_prefix="abcdef1"), "listings_by_commit_sha"),
        (lambda found: found.search(limit=50, repository="a/b"), "listings_by_repository"),
    ],
)
def test_pages_look_nothing_through(
    tmp_path: Path, ask: Callable[[SqlIndex], object], index: str
) -> None:
    with closing(sqlite_database(tmp_path)) as database, plans() as steps:
        ask(SqlIndex(database))
    assert any(f"INDEX {index} " in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN") or "ORDER BY" in step]

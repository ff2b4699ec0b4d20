"""What is particular to SQLite: the file, its modes, full disks, old and newer databases."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path

import pytest
import sqlalchemy as sa

from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.schema import SCHEMA_VERSION
from k3server.errors import MachineError
from k3server.ports import StoreFullError, StoreUnavailableError
from k3server.submission import NewSubmission
from k3server_testing.databases import sqlite_database
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock


def new(number: int) -> NewSubmission:
    return NewSubmission(
        document=example_document(run_id=f"{number:032x}"),
        blob_sha256=f"{number:064x}",
        blob_size_bytes=1,
        received_at=FixedClock().now(),
    )


def test_reopen_keeps_submissions_and_log_mode(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(Database.in_file(path)) as database:
        kept = SqlIndex(database).add(new(1)).submission
    with closing(Database.in_file(path)) as database:
        assert SqlIndex(database).get(kept.row.bundle_sha256) == kept
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM submissions", "UPDATE submissions SET trust = 'signed'"]
)
def test_database_refuses_to_change_a_submission(tmp_path: Path, statement: str) -> None:
    """By any program that opens the file, not only by ours."""
    with closing(sqlite_database(tmp_path)) as database:
        SqlIndex(database).add(new(1))
    with (
        closing(sqlite3.connect(tmp_path / "registry.sqlite3")) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)


def test_add_from_many_threads_and_two_registries_loses_none(tmp_path: Path) -> None:
    failures: list[Exception] = []
    with (
        closing(sqlite_database(tmp_path)) as one,
        closing(Database.in_file(tmp_path / "registry.sqlite3")) as two,
    ):

        def fill(database: Database, first: int) -> None:
            try:
                for number in range(first, first + 12):
                    SqlIndex(database).add(new(number))
            except (StoreUnavailableError, sa.exc.DBAPIError) as error:
                failures.append(error)

        threads = [
            threading.Thread(target=fill, args=(database, first))
            for database, first in ((one, 0), (two, 6), (one, 12), (two, 24))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert len(SqlIndex(one).latest(limit=100)) == 36


class FullDatabase(Database):
    """Has room for a few pages more, then no more: a real SQLITE_FULL."""

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with super().writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 40")
            yield connection


def test_add_on_a_full_disk_keeps_nothing_and_works_again(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(Database.in_file(path)) as database:
        SqlIndex(database).add(new(1))
    with closing(FullDatabase.in_file(path)) as full:
        with pytest.raises(StoreFullError, match="full"):
            for number in range(2, 100):
                SqlIndex(full).add(new(number))
        stored = len(SqlIndex(full).latest(limit=100))
    assert stored < 99
    with closing(Database.in_file(path)) as database:
        assert SqlIndex(database).add(new(200)).submission.row.sequence == stored + 1


def test_open_database_of_a_newer_registry_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    words = rf"schema version 999.*up to {SCHEMA_VERSION}\. Start the newer"
    with pytest.raises(MachineError, match=words):
        Database.in_file(path)


def test_migrations_are_numbered_without_gaps_on_both_engines() -> None:
    folder = resources.files("k3server") / "migrations"
    for engine in ("sqlite", "postgresql"):
        names = [entry.name for entry in (folder / engine).iterdir()]
        numbers = sorted(int(name[:4]) for name in names if name.endswith(".sql"))
        assert numbers == list(range(1, SCHEMA_VERSION + 1))

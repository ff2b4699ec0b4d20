import sqlite3
import threading
from contextlib import closing
from datetime import datetime
from importlib import resources
from pathlib import Path

import pytest

from k3server.adapters.sqlite_index import SqliteIndex
from k3server.adapters.sqlite_schema import SCHEMA_VERSION, migrate
from k3server.errors import MachineError
from k3server.ports import StoreFullError
from k3server.submission import NewSubmission
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock


def new(number: int, received_at: datetime | None = None) -> NewSubmission:
    return NewSubmission(
        document=example_document(run_id=f"{number:032x}"),
        blob_sha256=f"{number:064x}",
        blob_size_bytes=1,
        trust="self-reported",
        received_at=received_at or FixedClock().now(),
    )


def test_reopen_keeps_submissions_and_log_mode(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(SqliteIndex(path)) as index:
        kept = index.add(new(1)).submission
    with closing(SqliteIndex(path)) as index:
        assert index.get(kept.row.bundle_sha256) == kept
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    "statement", ["DELETE FROM submissions", "UPDATE submissions SET trust = 'signed'"]
)
def test_database_refuses_to_change_a_submission(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(SqliteIndex(path)) as index:
        index.add(new(1))
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)


def test_add_from_many_threads_and_two_indexes_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    failures: list[Exception] = []
    with closing(SqliteIndex(path)) as one, closing(SqliteIndex(path)) as two:

        def fill(index: SqliteIndex, first: int) -> None:
            try:
                for number in range(first, first + 12):
                    index.add(new(number))
            except sqlite3.Error as error:
                failures.append(error)

        threads = [
            threading.Thread(target=fill, args=(index, first))
            for index, first in ((one, 0), (two, 6), (one, 12), (two, 24))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert len(one.latest(limit=100)) == 36


def test_add_on_a_full_disk_keeps_nothing_and_works_again(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(SqliteIndex(path)) as index:
        index.add(new(1))
    with closing(FullIndex(path)) as full:
        with pytest.raises(StoreFullError, match="full"):
            for number in range(2, 100):
                full.add(new(number))
        stored = len(full.latest(limit=100))
    assert stored < 99
    with closing(SqliteIndex(path)) as index:
        assert index.add(new(200)).submission.row.sequence == stored + 1


class FullIndex(SqliteIndex):
    """Has room for a few pages more, then no more: a real SQLITE_FULL."""

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA max_page_count = 30")
        return connection


def test_add_naive_time_is_refused_and_leaves_no_lock(tmp_path: Path) -> None:
    with closing(SqliteIndex(tmp_path / "index.sqlite3")) as index:
        with pytest.raises(ValueError, match="without a zone"):
            index.add(new(1, FixedClock().now().replace(tzinfo=None)))
        assert index.add(new(1)).created


def test_open_database_of_a_newer_registry_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(MachineError, match=r"schema version 999.*up to 1\. Start the newer"):
        SqliteIndex(path)


def test_migrate_that_fails_leaves_nothing_half_made(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE nonces (other TEXT)")
        with pytest.raises(sqlite3.OperationalError, match="already exists"):
            migrate(connection)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert tables.fetchall() == [("nonces",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_migrations_are_numbered_without_gaps() -> None:
    folder = resources.files("k3server") / "migrations"
    numbers = sorted(int(p.name[:4]) for p in folder.iterdir() if p.name.endswith(".sql"))
    assert numbers == list(range(1, SCHEMA_VERSION + 1))

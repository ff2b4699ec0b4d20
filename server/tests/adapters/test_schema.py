"""Migrations: from every released schema, on both engines, whole or not at all."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from k3server.adapters.sql.database import Database, make_engine
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.schema import SCHEMA_VERSION, upgrade
from k3server.adapters.sql.tables import METADATA, listings, submissions
from k3server.document import SubmissionDocument
from k3server.errors import MachineError
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.services.postgresql import PostgresqlServer

NOW = FixedClock().now()
RELEASED = sorted((Path(__file__).parent / "released").glob("*.sql"))


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> sa.URL:
    """A database that holds nothing at all."""
    if request.param == "sqlite":
        return sa.URL.create("sqlite", database=str(tmp_path / "empty.sqlite3"))
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


def schema_of(connection: sa.Connection) -> dict[str, object]:
    """Columns, indexes and unique keys by table."""
    inspector = sa.inspect(connection)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)],
            sorted((str(i["name"]), i["column_names"]) for i in inspector.get_indexes(table)),
        )
        for table in sorted(inspector.get_table_names())
        if table != "alembic_version"
    }


def test_there_is_a_database_of_the_first_release() -> None:
    assert "0001" in [path.stem for path in RELEASED]


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_database_of_a_release_keeps_its_submissions(released: Path, tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(released.read_text(encoding="utf-8"))
        before = connection.execute(
            "SELECT sequence, bundle_sha256, document FROM submissions ORDER BY sequence DESC"
        ).fetchall()
    assert before
    with closing(Database.in_file(path)) as database:
        index = SqlIndex(database)
        rows = index.every(limit=100)
        assert [(row.sequence, row.bundle_sha256) for row in rows] == [b[:2] for b in before]
        for _, digest, document in before:
            found = index.get(digest)
            assert found is not None
            assert found.document == SubmissionDocument.model_validate_json(document)
        with database.reading() as connection:
            migrated = schema_of(connection)
    with closing(Database.in_file(tmp_path / "fresh.sqlite3")) as fresh, fresh.reading() as made:
        assert migrated == schema_of(made)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_upgrade_from_every_version_ends_in_the_same_schema(url: sa.URL, version: int) -> None:
    engine = make_engine(url).execution_options(writing=True)
    with engine.begin() as connection:
        upgrade(connection, target=version)
    with engine.begin() as connection:
        upgrade(connection)
        upgraded = schema_of(connection)
    engine.dispose()
    assert {table.name for table in METADATA.sorted_tables} <= set(upgraded)


def test_upgrade_lowers_the_trust_of_bad_nonces(url: sa.URL) -> None:
    engine = make_engine(url).execution_options(writing=True)
    with engine.begin() as connection:
        upgrade(connection, target=6)
        for number, standing in enumerate(("local", "foreign", "reused", "expired"), start=1):
            _add_signed(connection, f"{number:064x}", standing)
        upgrade(connection)
        found = connection.execute(sa.text("SELECT trust FROM listings ORDER BY sequence")).all()
    engine.dispose()
    assert [row[0] for row in found] == ["signed", *["self-reported"] * 3]


def _add_signed(connection: sa.Connection, digest: str, standing: str) -> None:
    """A submission with these fields, as version 6 has them."""
    row = {
        **dict.fromkeys(("bundle_sha256", "blob_sha256"), digest),
        **dict.fromkeys(("repository", "repository_key"), "example/engine"),
        **{"blob_size_bytes": 1, "pull_request": 7, "commit_sha": "ab" * 20, "trust": "signed"},
        **{"nonce_standing": standing, "received_at_utc": NOW, "summary": "{}", "document": "{}"},
    }
    sequence = connection.execute(
        submissions.insert().values(row).returning(submissions.c.sequence)
    ).scalar_one()
    shared = {name: row[name] for name in row if name in listings.c}
    more = dict.fromkeys(("status", "tier", "subject", "plan_sha256", "signer"), "x")
    listing = {**shared, **more, "sequence": sequence, "space": "main", "state": "visible"}
    connection.execute(listings.insert().values(listing))


def test_tables_in_statements_are_those_of_the_migrations(url: sa.URL) -> None:
    engine = make_engine(url).execution_options(writing=True)
    with engine.begin() as connection:
        upgrade(connection)
        inspector = sa.inspect(connection)
        made = {
            table: {c["name"]: c["nullable"] for c in inspector.get_columns(table)}
            for table in inspector.get_table_names()
            if table != "alembic_version"
        }
    engine.dispose()
    for table in METADATA.sorted_tables:
        for key in table.primary_key.columns:
            # SQLite reports the key of a row as nullable, which it is not.
            made[table.name][key.name] = False
    assert made == {
        table.name: {column.name: column.nullable for column in table.columns}
        for table in METADATA.sorted_tables
    }


def test_upgrade_at_once_is_done_once(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Database(url), range(4)))
    for database in opened:
        database.close()
    assert len(opened) == 4


def test_upgrade_that_fails_leaves_nothing_half_made(url: sa.URL) -> None:
    engine = make_engine(url).execution_options(writing=True)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE nonces (other TEXT)")
    with pytest.raises(sa.exc.DBAPIError, match="already exists"), engine.begin() as connection:
        upgrade(connection)
    with engine.begin() as connection:
        assert sa.inspect(connection).get_table_names() == ["nonces"]
    engine.dispose()


def test_newer_postgresql_database_is_a_sentence(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with closing(Database(url)) as database, database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(MachineError, match="schema version 999"):
        Database(url)

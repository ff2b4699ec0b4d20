from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from k3server.adapters.sql.database import Database
from k3server_testing.databases import sqlite_database
from k3server_testing.services.postgresql import PostgresqlServer


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of each kind."""
    with closing(_open(request, tmp_path)) as made:
        yield made


def _open(request: pytest.FixtureRequest, folder: Path) -> Database:
    if request.param == "sqlite":
        return sqlite_database(folder)
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return Database(server.new_database())

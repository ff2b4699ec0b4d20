"""A database that goes away and comes back."""

from contextlib import closing

import pytest

from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.ports import StoreUnavailableError
from k3server.submission import NewSubmission
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.services.postgresql import PostgresqlServer


def new(number: int) -> NewSubmission:
    return NewSubmission(
        document=example_document(run_id=f"{number:032x}"),
        blob_sha256=f"{number:064x}",
        blob_size_bytes=1,
        received_at=FixedClock().now(),
    )


def test_crashed_postgresql_is_unavailable_and_loses_nothing_acknowledged() -> None:
    with PostgresqlServer() as server, closing(Database(server.new_database())) as database:
        index = SqlIndex(database)
        first = index.add(new(1)).submission
        server.crash()
        with pytest.raises(StoreUnavailableError):
            index.latest(limit=1)
        with pytest.raises(StoreUnavailableError):
            index.add(new(2))
        server.start()
        assert index.get(first.row.bundle_sha256) == first
        assert index.add(new(2)).created

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.forge_keys import NoKeys
from k3server.adapters.sql.everything import parts_on
from k3server.app import create_app
from k3server.settings import Settings
from k3server_testing.databases import sqlite_database
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.registry import PUBLIC_URL, Registry
from k3server_testing.services.object_stores import (
    ACCESS_KEY,
    SECRET_KEY,
    RcloneStore,
    SeaweedStore,
)
from k3server_testing.services.postgresql import PostgresqlServer


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    with closing(registry.database):
        yield registry


@pytest.fixture
async def client(registry: Registry) -> AsyncIterator[httpx.AsyncClient]:
    async with registry.client() as client:
        yield client


@pytest.fixture
async def real_client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application on the real adapters, with the verifier's own process."""
    settings = Settings(public_url=PUBLIC_URL)
    with closing(sqlite_database(tmp_path)) as database:
        parts = parts_on(
            database,
            FilesystemStore(tmp_path / "blobs"),
            keys=NoKeys(),
            verifier=ChildVerifier(settings),
            clock=FixedClock(),
        )
        transport = httpx.ASGITransport(create_app(settings, parts))
        async with httpx.AsyncClient(
            transport=transport, base_url=PUBLIC_URL, timeout=120
        ) as client:
            yield client


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def store_keys() -> Iterator[None]:
    """The keys of the stores below, where the client looks for them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patched.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def seaweed(store_keys: None) -> Iterator[SeaweedStore]:
    with SeaweedStore() as server:
        yield server


@pytest.fixture(scope="session")
def rclone(store_keys: None) -> Iterator[RcloneStore]:
    with RcloneStore() as server:
        yield server

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sqlite_index import SqliteIndex
from k3server.app import create_app
from k3server.settings import Settings
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.registry import PUBLIC_URL, Registry


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
async def client(registry: Registry) -> AsyncIterator[httpx.AsyncClient]:
    async with registry.client() as client:
        yield client


@pytest.fixture
async def real_client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application on the real adapters, with the verifier's own process."""
    settings = Settings(public_url=PUBLIC_URL)
    index = SqliteIndex(tmp_path / "registry.sqlite3")
    app = create_app(
        settings,
        FilesystemStore(tmp_path / "blobs"),
        index,
        ChildVerifier(settings),
        FixedClock(),
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=PUBLIC_URL, timeout=120) as client:
        yield client
    index.close()

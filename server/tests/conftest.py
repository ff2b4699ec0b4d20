from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from k3bundle.canonical import sha256_hex
from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sqlite_index import SqliteIndex
from k3server.app import create_app
from k3server.document import SubmissionDocument
from k3server.settings import Settings
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.memory_index import MemoryIndex
from k3server_testing.memory_store import MemoryStore
from k3server_testing.stub_verifier import StubVerifier

PUBLIC_URL = "http://registry.test"


@dataclass
class Registry:
    """An application on stand-ins, and a client for it."""

    settings: Settings = field(default_factory=lambda: Settings(public_url=PUBLIC_URL))
    store: MemoryStore = field(default_factory=MemoryStore)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    verifier: StubVerifier = field(default_factory=StubVerifier)
    clock: FixedClock = field(default_factory=FixedClock)

    def app(self) -> FastAPI:
        return create_app(self.settings, self.store, self.index, self.verifier, self.clock)

    def with_settings(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]

    async def submit(
        self, client: httpx.AsyncClient, document: SubmissionDocument
    ) -> httpx.Response:
        """Send some bytes that the stub takes for the archive of this document."""
        archive = document.bundle_sha256.encode()
        self.verifier.accept(archive, document)
        return await send(client, archive, document)


async def send(
    client: httpx.AsyncClient, archive: bytes, document: SubmissionDocument
) -> httpx.Response:
    digest = sha256_hex(archive)
    put = await client.put(f"/api/v1/blobs/{digest}", content=archive)
    assert put.status_code in {200, 201}
    change = document.manifest.change
    return await client.post(
        "/api/v1/submissions", json={"blob_sha256": digest, **change.model_dump()}
    )


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
async def client(registry: Registry) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(registry.app())
    async with httpx.AsyncClient(transport=transport, base_url=PUBLIC_URL) as client:
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

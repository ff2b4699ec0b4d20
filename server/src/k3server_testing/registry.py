"""An application on stand-ins, and on a real database in a file of its own."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx
from fastapi import FastAPI

from k3bundle.canonical import sha256_hex
from k3server.account_ports import Issuer, KeyDirectory
from k3server.adapters.forge_keys import NoKeys
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.everything import parts_on
from k3server.adapters.sql.index import SqlIndex
from k3server.app import create_app
from k3server.document import SubmissionDocument
from k3server.parts import Parts
from k3server.settings import Settings
from k3server_testing.databases import sqlite_database
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.memory_store import MemoryStore
from k3server_testing.stub_verifier import StubVerifier

__all__ = ["PUBLIC_URL", "Registry"]

PUBLIC_URL: Final = "http://registry.test"


@dataclass
class Registry:
    """The parts of an application; change them before `app` or `client` is called."""

    settings: Settings = field(default_factory=lambda: Settings(public_url=PUBLIC_URL))
    store: MemoryStore = field(default_factory=MemoryStore)
    database: Database = field(default_factory=sqlite_database)
    verifier: StubVerifier = field(default_factory=StubVerifier)
    clock: FixedClock = field(default_factory=FixedClock)
    keys: KeyDirectory = field(default_factory=NoKeys)
    issuer: Issuer | None = None

    def limit(self, **changes: Any) -> None:
        """Change settings."""
        self.settings = replace(self.settings, **changes)

    @property
    def index(self) -> SqlIndex:
        """Submissions and nonces."""
        return SqlIndex(self.database)

    def parts(self) -> Parts:
        """The parts as an application takes them."""
        return parts_on(
            self.database,
            self.store,
            keys=self.keys,
            verifier=self.verifier,
            clock=self.clock,
            issuer=self.issuer,
        )

    def app(self) -> FastAPI:
        """An application on the parts."""
        return create_app(self.settings, self.parts())

    def client(self) -> httpx.AsyncClient:
        """A client of a new application; a defect raises instead of answering 500."""
        transport = httpx.ASGITransport(self.app())
        return httpx.AsyncClient(transport=transport, base_url=PUBLIC_URL)

    async def submit(
        self,
        client: httpx.AsyncClient,
        document: SubmissionDocument,
        *,
        token: str | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Send bytes that the verifier takes for the archive of this document.

        Args:
            client: Who sends.
            document: What the verifier shall answer.
            token: Text of an API token.
            **more: More fields of the request.
        """
        archive = document.bundle_sha256.encode()
        self.verifier.accept(archive, document)
        digest = sha256_hex(archive)
        put = await client.put(f"/api/v1/blobs/{digest}", content=archive)
        put.raise_for_status()
        change = document.manifest.change
        return await client.post(
            "/api/v1/submissions",
            json={"blob_sha256": digest, **change.model_dump(), **more},
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
        )

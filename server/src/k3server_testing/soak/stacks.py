"""Registries for faults: the embedded one, and one on PostgreSQL and an object store."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.s3_store import S3Store
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.ports import BundleStore
from k3server.upkeep import verify_store
from k3server_testing.process import RegistryProcess
from k3server_testing.services.object_stores import ACCESS_KEY, BUCKET, SECRET_KEY, SeaweedStore
from k3server_testing.services.postgresql import PASSWORD, PostgresqlServer

__all__ = ["EmbeddedStack", "FullStack", "Loss", "Stack", "StackName", "stack_in"]

StackName = Literal["embedded", "full"]


@dataclass(frozen=True)
class Loss:
    """What a registry lacks of what it acknowledged, judged after everything ended."""

    lost: int
    """Acknowledged submissions that are not in the index."""
    damaged: int
    """Submissions in the index whose archive is missing or another one."""
    unknown: int
    """Submissions in the index that nobody was told of."""


class Stack:
    """Where a registry keeps things; a registry can be started on it again and again."""

    def __init__(self, folder: Path) -> None:
        """Keep the registry's data folder."""
        self.folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def serve(self) -> RegistryProcess:
        """Start a registry and wait until it answers."""
        return RegistryProcess(self.folder, *self._arguments())

    def loss(self, acknowledged: set[str]) -> Loss:
        """Compare what was acknowledged with what is there; every archive is hashed again."""
        with self._parts() as (index, store):
            there = {report.bundle_sha256: report.state for report in verify_store(store, index)}
        return Loss(
            lost=len(acknowledged - there.keys()),
            damaged=sum(state != "intact" for state in there.values()),
            unknown=len(there.keys() - acknowledged),
        )

    def close(self) -> None:
        """End what belongs to it."""

    def _arguments(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _parts(self) -> AbstractContextManager[tuple[SqlIndex, BundleStore]]:
        raise NotImplementedError


class EmbeddedStack(Stack):
    """SQLite and files in the data folder."""

    def _arguments(self) -> tuple[str, ...]:
        return ()

    @contextmanager
    def _parts(self) -> Iterator[tuple[SqlIndex, BundleStore]]:
        database = Database.in_file(self.folder / "registry.sqlite3")
        try:
            yield SqlIndex(database), FilesystemStore(self.folder / "blobs")
        finally:
            database.close()


class FullStack(Stack):
    """A PostgreSQL cluster and a SeaweedFS of its own."""

    def __init__(self, folder: Path) -> None:
        """Start both; their keys and password go into the environment of this process."""
        super().__init__(folder)
        os.environ.update(
            AWS_ACCESS_KEY_ID=ACCESS_KEY,
            AWS_SECRET_ACCESS_KEY=SECRET_KEY,
            AWS_EC2_METADATA_DISABLED="true",
            PGPASSWORD=PASSWORD,
        )
        self.database = PostgresqlServer()
        self.store = SeaweedStore()
        self._url = self.database.new_database()

    def close(self) -> None:
        """End both and remove what they kept."""
        self.store.__exit__(None, None, None)
        self.database.__exit__(None, None, None)

    def _arguments(self) -> tuple[str, ...]:
        url = self._url
        endpoint = self.store.location.endpoint
        return (
            # Without the password: it comes from the environment.
            f"--database=postgresql://{url.username}@{url.host}:{url.port}/{url.database}",
            f"--s3-bucket={BUCKET}",
            f"--s3-endpoint={endpoint}",
        )

    @contextmanager
    def _parts(self) -> Iterator[tuple[SqlIndex, BundleStore]]:
        database = Database(self._url)
        try:
            yield SqlIndex(database), S3Store(self.store.location, self.folder / "spool")
        finally:
            database.close()


def stack_in(folder: Path, name: StackName) -> Stack:
    """Make a stack in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return EmbeddedStack(folder) if name == "embedded" else FullStack(folder)

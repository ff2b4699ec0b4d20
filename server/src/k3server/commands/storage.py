"""Flags that say where a registry keeps things, and what opens them."""

import argparse
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sql.database import Database
from k3server.errors import MachineError
from k3server.ports import BundleStore

__all__ = ["STORAGE_EPILOG", "add_storage_flags", "database_of", "folder_error", "store_of"]

STORAGE_EPILOG: Final = """\
storage:
  Without further flags archives and index are in the folder of --data. With --database the index is
  in PostgreSQL (the password comes from PGPASSWORD or a PGPASSFILE), with --s3-bucket archives are
  in an S3-compatible store (keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY). Both need
  the production extra: pip install k3-server[production].
"""


def add_storage_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--data", type=Path, required=True, help="folder of archives and index")
    parser.add_argument(
        "--database",
        type=_database_url,
        metavar="postgresql://USER@HOST:PORT/NAME",
        help="index in PostgreSQL instead of a file in the folder",
    )
    parser.add_argument("--s3-bucket", help="archives in this bucket instead of in the folder")
    parser.add_argument(
        "--s3-create-bucket", action="store_true", help="make the bucket where it is not there"
    )
    parser.add_argument("--s3-endpoint", help="address of the S3-compatible store")
    parser.add_argument(
        "--s3-region", default="us-east-1", help="region to sign requests for (%(default)s)"
    )
    parser.add_argument(
        "--s3-public-endpoint",
        help="address of the store for contributors; downloads are then redirected to it",
    )


def _database_url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        url = sa.URL.create("unreadable")
    if url.drivername not in {"postgresql", "postgresql+psycopg"}:
        raise argparse.ArgumentTypeError(
            "expected an address like postgresql://k3@127.0.0.1:5432/k3, found another one"
        )
    if url.password is not None:
        raise argparse.ArgumentTypeError(
            "expected an address without a password, which every list of processes would show; "
            "set PGPASSWORD instead"
        )
    return url.set(drivername="postgresql+psycopg")


@contextmanager
def database_of(chosen: argparse.Namespace) -> Iterator[Database]:
    """The database that the flags name, with current schema.

    Raises:
        MachineError: It cannot be opened.
    """
    with closing(_open_database(chosen)) as database:
        yield database


def _open_database(chosen: argparse.Namespace) -> Database:
    if chosen.database is not None:
        return _open_postgresql(chosen.database)
    path = chosen.data / "registry.sqlite3"
    try:
        chosen.data.mkdir(parents=True, exist_ok=True)
        return Database.in_file(path)
    except OSError as error:
        raise folder_error(chosen.data, error) from None
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        raise MachineError(
            f"Expected a database in {path}, found: {getattr(error, 'orig', error)}.",
            "Give --data a folder that you may write to, or put back a copy of the file.",
        ) from None


def _open_postgresql(url: sa.URL) -> Database:
    where = f"{url.host or 'the local socket'}:{url.port or 5432}/{url.database}"
    try:
        return Database(url)
    except ModuleNotFoundError:
        raise MachineError(
            "Expected the driver psycopg for --database, found it not installed.",
            "Install k3-server[production].",
        ) from None
    except sa.exc.DBAPIError as error:
        words = " ".join(str(error.orig).split())
        raise MachineError(
            f"Expected a PostgreSQL database at {where}, found: {words}.",
            "Start it, or check --database and PGPASSWORD.",
        ) from None


def store_of(chosen: argparse.Namespace) -> BundleStore:
    """The store that the flags name.

    Raises:
        MachineError: It cannot be used.
    """
    if chosen.s3_bucket is None:
        try:
            return FilesystemStore(chosen.data / "blobs")
        except OSError as error:
            raise folder_error(chosen.data, error) from None
    try:
        # The client is in the production extra only, and takes half a second to import.
        from k3server.adapters.s3_client import S3Location, create_bucket  # noqa: PLC0415
        from k3server.adapters.s3_store import S3Store  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MachineError(
            "Expected the client boto3 for --s3-bucket, found it not installed.",
            "Install k3-server[production].",
        ) from None
    location = S3Location(
        bucket=chosen.s3_bucket,
        endpoint=chosen.s3_endpoint,
        region=chosen.s3_region,
        public_endpoint=chosen.s3_public_endpoint,
    )
    if chosen.s3_create_bucket:
        create_bucket(location)
    return S3Store(location, chosen.data / "spool")


def folder_error(data: Path, error: OSError) -> MachineError:
    """A folder that cannot be written, as a sentence."""
    return MachineError(
        f"Expected to write in the folder {data}, found: {error.strerror or error}.",
        "Give --data a folder that you may write to, on a disk with room.",
    )

"""Which blobs are wanted, and uploads in parts, in a database."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from k3server.adapters.sql.database import Database, insert_new
from k3server.adapters.sql.tables import blobs, submissions, upload_parts, uploads
from k3server.ports import OpenUpload

__all__ = ["SqlBlobLedger"]


class SqlBlobLedger:
    """A `BlobLedger` in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def renew(self, sha256: str, at: datetime) -> None:
        """Note that a blob was wanted."""
        with self._database.writing() as connection:
            if not insert_new(connection, blobs, {"sha256": sha256, "seen_at_utc": at}):
                later = blobs.update().where(blobs.c.sha256 == sha256, blobs.c.seen_at_utc < at)
                connection.execute(later.values(seen_at_utc=at))

    def release(
        self, sha256: str, *, before: datetime, now: datetime, remove: Callable[[], None]
    ) -> bool:
        """Remove a blob that nothing names and nobody wanted of late."""
        with self._database.writing() as connection:
            row = sa.select(blobs.c.seen_at_utc).where(blobs.c.sha256 == sha256).with_for_update()
            seen = connection.execute(row).scalar_one_or_none()
            if seen is None:
                insert_new(connection, blobs, {"sha256": sha256, "seen_at_utc": now})
                return False
            if seen >= before or _is_named(connection, sha256):
                return False
            remove()
            connection.execute(blobs.delete().where(blobs.c.sha256 == sha256))
            return True

    def open_upload(self, upload: OpenUpload) -> OpenUpload:
        """Record an upload; or get the open one of the same blob and sizes."""
        same = sa.and_(
            uploads.c.blob_sha256 == upload.blob_sha256,
            uploads.c.size_bytes == upload.size_bytes,
            uploads.c.part_size_bytes == upload.part_size_bytes,
            uploads.c.expires_at_utc > upload.opened_at,
        )
        with self._database.writing() as connection:
            oldest = sa.select(uploads).where(same).order_by(uploads.c.opened_at_utc).limit(1)
            found = connection.execute(oldest).mappings().one_or_none()
            if found is not None:
                return _upload(found)
            connection.execute(
                uploads.insert().values(
                    upload_id=upload.upload_id,
                    blob_sha256=upload.blob_sha256,
                    size_bytes=upload.size_bytes,
                    part_size_bytes=upload.part_size_bytes,
                    opened_at_utc=upload.opened_at,
                    expires_at_utc=upload.expires_at,
                )
            )
            return upload

    def upload(self, upload_id: str, now: datetime) -> OpenUpload | None:
        """The upload with this id; None when there is none or it expired."""
        wanted = sa.and_(uploads.c.upload_id == upload_id, uploads.c.expires_at_utc > now)
        with self._database.reading() as connection:
            row = connection.execute(sa.select(uploads).where(wanted)).mappings().one_or_none()
        return None if row is None else _upload(row)

    def add_part(self, upload_id: str, number: int, part_sha256: str) -> None:
        """Record that a part is in the store."""
        key = {"upload_id": upload_id, "number": number}
        with self._database.writing() as connection:
            # Locked, so that the upload is not forgotten between the look and the insertion.
            there = sa.select(uploads.c.upload_id).where(uploads.c.upload_id == upload_id)
            if connection.execute(there.with_for_update()).first() is None:
                raise KeyError(upload_id)
            if not insert_new(connection, upload_parts, {**key, "part_sha256": part_sha256}):
                same = sa.and_(
                    upload_parts.c.upload_id == upload_id, upload_parts.c.number == number
                )
                connection.execute(
                    upload_parts.update().where(same).values(part_sha256=part_sha256)
                )

    def parts(self, upload_id: str) -> dict[int, str]:
        """Number -> digest of the parts that are in the store."""
        wanted = sa.select(upload_parts).where(upload_parts.c.upload_id == upload_id)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(upload_parts.c.number)).mappings()
            return {row["number"]: row["part_sha256"] for row in rows}

    def close_upload(self, upload_id: str) -> None:
        """Forget an upload."""
        with self._database.writing() as connection:
            connection.execute(uploads.delete().where(uploads.c.upload_id == upload_id))

    def close_expired(self, now: datetime) -> int:
        """Forget uploads that expired."""
        gone = uploads.delete().where(uploads.c.expires_at_utc <= now)
        with self._database.writing() as connection:
            return len(connection.execute(gone.returning(uploads.c.upload_id)).all())


def _is_named(connection: sa.Connection, sha256: str) -> bool:
    by_submission = sa.select(submissions.c.sequence).where(submissions.c.blob_sha256 == sha256)
    by_upload = sa.select(upload_parts.c.number).where(upload_parts.c.part_sha256 == sha256)
    return any(
        connection.execute(statement.limit(1)).first() is not None
        for statement in (by_submission, by_upload)
    )


def _upload(row: Mapping[Any, Any]) -> OpenUpload:
    return OpenUpload(
        upload_id=row["upload_id"],
        blob_sha256=row["blob_sha256"],
        size_bytes=row["size_bytes"],
        part_size_bytes=row["part_size_bytes"],
        opened_at=row["opened_at_utc"],
        expires_at=row["expires_at_utc"],
    )

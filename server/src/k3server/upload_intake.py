"""The use case of large archives: parts that may come in any order, again, and after a crash.

A part is a blob like any other, stored under its own digest. Completing an upload reads the parts
in order and writes the whole, so the digest of the whole is checked whatever the parts were.
"""

import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from starlette.concurrency import run_in_threadpool

from k3server.errors import Problem, ProblemFinding, PublicError
from k3server.intake import Intake
from k3server.parts import Parts
from k3server.ports import DigestMismatchError, OpenUpload
from k3server.settings import Settings

__all__ = ["UploadIntake", "UploadState"]

_PIECE_BYTES: Final = 1024 * 1024
_LISTED: Final = 20


@dataclass(frozen=True)
class UploadState:
    """An upload and what has arrived of it."""

    upload: OpenUpload
    """The upload."""
    received: tuple[int, ...]
    """Numbers of the parts that are in the store, ascending."""


class UploadIntake:
    """Opens, fills and completes uploads in parts."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        intake: Intake,
        *,
        draw_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._settings = settings
        self._store = parts.store
        self._ledger = parts.ledger
        self._clock = parts.clock
        self._intake = intake
        self._draw_id = draw_id

    async def open(self, blob_sha256: str, size_bytes: int) -> UploadState:
        """Open an upload, or find the one that was opened for the same archive before."""
        now = self._clock.now()
        asked = OpenUpload(
            upload_id=self._draw_id(),
            blob_sha256=blob_sha256,
            size_bytes=size_bytes,
            part_size_bytes=self._settings.part_size_bytes,
            opened_at=now,
            expires_at=now + timedelta(seconds=self._settings.upload_lifetime_s),
        )
        upload = await run_in_threadpool(self._ledger.open_upload, asked)
        return await self._state(upload)

    async def look(self, upload_id: str) -> UploadState:
        """The upload with this id.

        Raises:
            PublicError: There is none (404).
        """
        return await self._state(await self.find(upload_id))

    async def find(self, upload_id: str) -> OpenUpload:
        """The upload with this id, without its parts.

        Raises:
            PublicError: There is none (404).
        """
        upload = await run_in_threadpool(self._ledger.upload, upload_id, self._clock.now())
        if upload is None:
            raise _no_upload(upload_id)
        return upload

    async def receive_part(
        self, upload: OpenUpload, number: int, part_sha256: str, pieces: AsyncGenerator[bytes]
    ) -> Literal["created", "existing"]:
        """Take in the bytes of one part.

        Raises:
            PublicError: The digest differs (422), or the upload is gone (404).
            StoreFullError: There is no room; nothing is kept.
        """
        outcome = await self._intake.receive(part_sha256, pieces)
        try:
            await run_in_threadpool(self._ledger.add_part, upload.upload_id, number, part_sha256)
        except KeyError:
            raise _no_upload(upload.upload_id) from None
        return outcome

    async def complete(self, upload: OpenUpload) -> Literal["created", "existing"]:
        """Make the archive of its parts.

        Raises:
            PublicError: Parts are missing (409), or the whole has another digest (422); in the
                second case the upload is forgotten, because which part is wrong cannot be told.
            StoreFullError: There is no room; the parts are kept.
        """
        parts = await run_in_threadpool(self._ledger.parts, upload.upload_id)
        missing = [number for number in range(1, upload.part_count + 1) if number not in parts]
        if missing:
            raise _incomplete(upload, missing)
        await run_in_threadpool(self._ledger.renew, upload.blob_sha256, self._clock.now())
        try:
            outcome = await run_in_threadpool(self._join, upload, parts)
        except DigestMismatchError as error:
            await run_in_threadpool(self._ledger.close_upload, upload.upload_id)
            raise PublicError(
                Problem(
                    422,
                    "The digest does not match",
                    f"Expected parts of an archive with SHA-256 {error.expected}, found "
                    f"{error.found}. Open a new upload under the digest of the file as it is now.",
                )
            ) from None
        await run_in_threadpool(self._ledger.close_upload, upload.upload_id)
        return outcome

    def _join(self, upload: OpenUpload, parts: dict[int, str]) -> Literal["created", "existing"]:
        incoming = self._store.begin(upload.blob_sha256)
        try:
            for number in range(1, upload.part_count + 1):
                with self._store.open(parts[number]) as part:
                    while piece := part.read(_PIECE_BYTES):
                        incoming.write(piece)
            return incoming.commit()
        finally:
            incoming.discard()

    async def _state(self, upload: OpenUpload) -> UploadState:
        parts = await run_in_threadpool(self._ledger.parts, upload.upload_id)
        return UploadState(upload, tuple(sorted(parts)))


def _no_upload(upload_id: str) -> PublicError:
    return PublicError(
        Problem(
            404,
            "There is no such upload",
            f"Expected an open upload {upload_id}, found none: it was completed or expired. "
            "Ask whether the archive is there with HEAD /api/v1/blobs/SHA256, or open a new one.",
        )
    )


def _incomplete(upload: OpenUpload, missing: list[int]) -> PublicError:
    findings = tuple(
        ProblemFinding(
            code="part-missing",
            where=f"part {number}",
            why=f"Expected part {number} of {upload.part_bytes(number)} bytes, found none.",
            hint=f"Send it: PUT /api/v1/uploads/{upload.upload_id}/parts/{number}.",
        )
        for number in missing[:_LISTED]
    )
    detail = (
        f"Expected {upload.part_count} parts, found {upload.part_count - len(missing)}. "
        "Send the missing ones, then complete the upload again."
    )
    return PublicError(Problem(409, "Parts are missing", detail, findings=findings))

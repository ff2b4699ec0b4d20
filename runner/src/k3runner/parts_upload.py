"""Sends a large bundle to a registry in parts, and goes on where an earlier try stopped.

The registry remembers for a day which parts of an archive arrived, by the archive's digest. So a
second `k3-eval submit`, on whatever machine, sends only what is missing.
"""

import asyncio
import base64
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from k3runner.errors import RegistryError
from k3runner.registry_answer import error_of, object_of
from k3runner.registry_client import TAKE, Answer, RegistryClient, TryAgainError
from k3runner.wording import bytes_text, plural

__all__ = ["PARTS_ABOVE_BYTES", "upload_in_parts"]

PARTS_ABOVE_BYTES: Final = 16 << 20
"""Archives above this size, that of a part, go in parts, so that a cut costs one part."""

_THERE: Final = 200
_CREATED: Final = (200, 201)
_GONE: Final = 404
_MISSING_PARTS: Final = 409
_OTHER_BYTES: Final = 422
_UPLOAD_ID: Final = re.compile(r"[0-9a-f]{32}")
_MOST_PARTS: Final = 100_000
_LARGEST_PART: Final = 1 << 30


@dataclass(frozen=True)
class _Upload:
    """An open upload, as the registry describes it."""

    upload_id: str
    part_size_bytes: int
    part_count: int
    received: frozenset[int]


async def upload_in_parts(client: RegistryClient, bundle: Path, digest: str, size: int) -> bool:
    """Make the registry hold the archive.

    Args:
        client: The registry.
        bundle: The bundle's file; it is only read.
        digest: SHA-256 of the whole file.
        size: Its size in bytes.

    Returns:
        Whether it was there already.

    Raises:
        RefusedError: The registry takes no archive of this size.
        RegistryError: The registry cannot be reached or answers with an error.
    """

    async def once() -> bool:
        # Asked before every attempt: the answer to a completion may have been lost.
        if (await client.request("HEAD", f"/api/v1/blobs/{digest}")).status == _THERE:
            return True
        upload = await _open(client, digest, size)
        for number in range(1, upload.part_count + 1):
            if number not in upload.received:
                await _send(client, bundle, upload, number)
        await _complete(client, upload)
        return False

    return await client.patiently(once, TAKE)


async def _open(client: RegistryClient, digest: str, size: int) -> _Upload:
    body = {"blob_sha256": digest, "size_bytes": size}
    answer = await client.request("POST", "/api/v1/uploads", json=body)
    if answer.status not in _CREATED:
        raise error_of(answer.status, answer.body, client.registry)
    upload = _read(object_of(answer.body), size)
    if upload is None:
        raise RegistryError(
            f"The registry at {client.registry} opened an upload whose parts do not add up to "
            f"{size} bytes.",
            "Check that the address is a k3-eval registry of the same version.",
        )
    there = f", {plural(len(upload.received), 'part')} there already" if upload.received else ""
    client.say(
        f"Uploading {bytes_text(size)} in {plural(upload.part_count, 'part')} of "
        f"{bytes_text(upload.part_size_bytes)}{there}."
    )
    return upload


def _read(found: Mapping[str, Any], size: int) -> _Upload | None:
    """The upload in an answer; None where it is none, or its parts are not those of the file."""
    upload_id, received = found.get("upload_id"), found.get("received")
    part_size, count = found.get("part_size_bytes"), found.get("part_count")
    if not isinstance(upload_id, str) or not _UPLOAD_ID.fullmatch(upload_id):
        return None
    if not isinstance(part_size, int) or not 1 <= part_size <= _LARGEST_PART:
        return None
    if count != -(-size // part_size) or count > _MOST_PARTS or not isinstance(received, list):
        return None
    return _Upload(upload_id, part_size, count, frozenset(n for n in received if type(n) is int))


async def _send(client: RegistryClient, bundle: Path, upload: _Upload, number: int) -> None:
    offset = (number - 1) * upload.part_size_bytes
    part = await asyncio.to_thread(_read_part, bundle, offset, upload.part_size_bytes)
    encoded = base64.b64encode(hashlib.sha256(part).digest()).decode()
    path = f"/api/v1/uploads/{upload.upload_id}/parts/{number}"
    headers = {"Content-Digest": f"sha-256=:{encoded}:"}

    async def once() -> Answer:
        answer = await client.request("PUT", path, data=io.BytesIO(part), headers=headers)
        if answer.status == _OTHER_BYTES:
            raise TryAgainError(f"part {number} changed on the way to the registry")
        return answer

    # Patience anew for each part: a large bundle crosses a bad line in many tries.
    answer = await client.patiently(once, TAKE)
    if answer.status == _GONE:
        raise TryAgainError("the upload expired")
    if answer.status not in _CREATED:
        raise error_of(answer.status, answer.body, client.registry)


async def _complete(client: RegistryClient, upload: _Upload) -> None:
    answer = await client.request("POST", f"/api/v1/uploads/{upload.upload_id}/complete")
    if answer.status == _MISSING_PARTS:
        raise TryAgainError("parts are missing at the registry")
    if answer.status == _OTHER_BYTES:
        raise TryAgainError("the parts are those of another file")
    if answer.status == _GONE:
        raise TryAgainError("the upload is no longer open")
    if answer.status not in _CREATED:
        raise error_of(answer.status, answer.body, client.registry)


def _read_part(bundle: Path, offset: int, size: int) -> bytes:
    with bundle.open("rb") as file:
        file.seek(offset)
        return file.read(size)

"""Many uploads at once, some of them cut in the middle."""

import asyncio
import hashlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from k3server_testing.process import RegistryProcess

__all__ = ["UploadResult", "run_uploads"]

_PIECE: Final = 256 * 1024
_PATIENCE_S: Final = 900.0


@dataclass(frozen=True)
class UploadResult:
    """What became of the uploads."""

    uploads: int
    """Uploads that were sent whole."""
    cut: int
    """Uploads that were cut in the middle."""
    size_bytes: int
    """Size of each."""
    statuses: dict[str, int]
    """Status -> answers to whole uploads."""
    stored: int
    """Acknowledged archives that are there afterwards."""
    half_stored: int
    """Cut archives of which anything is there afterwards."""
    leftovers: int
    """Files that are still being received afterwards."""
    wall_s: float
    """From the first byte to the last answer."""
    peak_memory_bytes: int
    """Most memory of the registry's process (VmHWM)."""


@dataclass(frozen=True)
class _Upload:
    sha256: str
    head: bytes
    body: bytes
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self.head
        for start in range(len(self.head), self.size, _PIECE):
            yield self.body[start : min(start + _PIECE, self.size)]


def _make(number: int, body: bytes) -> _Upload:
    """An upload that differs from all others in its first bytes."""
    head = number.to_bytes(8, "big")
    digest = hashlib.sha256(head)
    digest.update(memoryview(body)[len(head) :])
    return _Upload(digest.hexdigest(), head, body, len(body))


def run_uploads(
    folder: Path, *, uploads: int, cut: int, size_bytes: int, seed: int
) -> UploadResult:
    """Send `uploads` archives at once, and begin `cut` more that break in the middle."""
    draw = random.Random(seed)  # noqa: S311
    body = draw.randbytes(size_bytes)
    whole = [_make(number, body) for number in range(uploads)]
    broken = [_make(uploads + number, body) for number in range(cut)]
    with RegistryProcess(folder) as registry:
        started = time.monotonic()
        statuses = asyncio.run(_send_all(registry.url, whole, broken, draw))
        wall_s = time.monotonic() - started
        with registry.client() as client:
            there = {u.sha256: _is_there(client, u.sha256) for u in (*whole, *broken)}
        peak = _peak_memory_bytes(registry.pid)
        leftovers = len(list((folder / "blobs" / "incoming").iterdir()))
    return UploadResult(
        uploads=uploads,
        cut=cut,
        size_bytes=size_bytes,
        statuses=dict(Counter(str(status) for status in statuses)),
        stored=sum(there[u.sha256] for u, s in zip(whole, statuses, strict=True) if s == _CREATED),
        half_stored=sum(there[u.sha256] for u in broken),
        leftovers=leftovers,
        wall_s=round(wall_s, 2),
        peak_memory_bytes=peak,
    )


_CREATED: Final = 201


async def _send_all(
    url: str, whole: list[_Upload], broken: list[_Upload], draw: random.Random
) -> list[int]:
    limits = httpx.Limits(max_connections=len(whole) + 1)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_S, limits=limits) as client:
        cuts = [_break(url, upload, draw.random()) for upload in broken]
        answers = await asyncio.gather(*(_send(client, upload) for upload in whole), *cuts)
    return [status for status in answers if status is not None]


async def _send(client: httpx.AsyncClient, upload: _Upload) -> int:
    headers = {"Content-Length": str(upload.size)}
    answer = await client.put(
        f"/api/v1/blobs/{upload.sha256}", content=upload.pieces(), headers=headers
    )
    return answer.status_code


async def _break(url: str, upload: _Upload, share: float) -> None:
    """Send a part of an upload, then close the connection without a word."""
    address = urlsplit(url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    head = (
        f"PUT /api/v1/blobs/{upload.sha256} HTTP/1.1\r\nHost: registry\r\n"
        f"Content-Length: {upload.size}\r\n\r\n"
    )
    writer.write(head.encode())
    left = int(upload.size * (0.05 + 0.9 * share))
    async for piece in upload.pieces():
        writer.write(piece[:left])
        await writer.drain()
        left -= len(piece)
        if left <= 0:
            break
    writer.transport.abort()


def _is_there(client: httpx.Client, sha256: str) -> bool:
    return client.head(f"/api/v1/blobs/{sha256}").status_code == httpx.codes.OK


def _peak_memory_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError("Expected VmHWM in the status of the registry's process, found none.")

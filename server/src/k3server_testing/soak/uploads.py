"""Many uploads at once, some of them cut in the middle."""

import asyncio
import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from k3server_testing.process import RegistryProcess

__all__ = ["UploadResult", "run_uploads"]

_PIECE: Final = 256 * 1024
_CREATED: Final = 201


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
    """Status -> answers to whole uploads; `none` where the connection ended without one."""
    stored: int
    """Acknowledged archives that are there afterwards."""
    half_stored: int
    """Cut archives of which anything is there afterwards."""
    leftovers: int
    """Files that are still being received afterwards."""
    sent_again: int
    """Cut archives that were taken when they were sent again."""
    wall_s: float
    """From the first byte to the last answer."""
    processor_s: float
    """Processor time of the registry for it."""
    idle_memory_bytes: int
    """Memory of the registry's process before the first byte (VmRSS)."""
    peak_memory_bytes: int
    """Most memory of the registry's process (VmHWM)."""


@dataclass(frozen=True, eq=False)
class _Upload:
    sha256: str
    head: bytes
    body: memoryview

    def pieces(self) -> Iterator[bytes | memoryview]:
        yield self.head
        for start in range(len(self.head), len(self.body), _PIECE):
            yield self.body[start : start + _PIECE]


def _make(number: int, body: memoryview) -> _Upload:
    """An upload that differs from all others in its first bytes."""
    head = number.to_bytes(8, "big")
    digest = hashlib.sha256(head)
    digest.update(body[len(head) :])
    return _Upload(digest.hexdigest(), head, body)


def run_uploads(
    folder: Path, *, uploads: int, cut: int, size_bytes: int, seed: int
) -> UploadResult:
    """Send `uploads` archives at once, and begin `cut` more that break in the middle."""
    draw = random.Random(seed)  # noqa: S311
    body = memoryview(draw.randbytes(size_bytes))
    whole = [_make(number, body) for number in range(uploads)]
    broken = {_make(uploads + number, body): 0.05 + 0.9 * draw.random() for number in range(cut)}
    with RegistryProcess(folder) as registry:
        idle = registry.memory_bytes("VmRSS")
        used, started = registry.processor_s(), time.monotonic()
        statuses = asyncio.run(_send_all(registry.url, whole, broken))
        wall_s = time.monotonic() - started
        processor_s = registry.processor_s() - used
        peak = registry.memory_bytes("VmHWM")
        with registry.client() as client:
            there = {u.sha256: _is_there(client, u.sha256) for u in (*whole, *broken)}
            leftovers = len(list((folder / "blobs" / "incoming").iterdir()))
        again = asyncio.run(_send_all(registry.url, list(broken), {}))
    acknowledged = [u for u, s in zip(whole, statuses, strict=True) if s == _CREATED]
    return UploadResult(
        uploads=uploads,
        cut=cut,
        size_bytes=size_bytes,
        statuses=dict(Counter(str(status or "none") for status in statuses)),
        stored=sum(there[upload.sha256] for upload in acknowledged),
        half_stored=sum(there[upload.sha256] for upload in broken),
        leftovers=leftovers,
        sent_again=again.count(_CREATED),
        wall_s=round(wall_s, 2),
        processor_s=round(processor_s, 2),
        idle_memory_bytes=idle,
        peak_memory_bytes=peak,
    )


async def _send_all(
    url: str, whole: list[_Upload], broken: dict[_Upload, float]
) -> list[int | None]:
    """Send all at once; the statuses of the whole ones."""
    cuts = (_send(url, upload, share) for upload, share in broken.items())
    answers = await asyncio.gather(*(_send(url, upload) for upload in whole), *cuts)
    return answers[: len(whole)]


async def _send(url: str, upload: _Upload, share: float = 1.0) -> int | None:
    """Send a share of an upload; the status of the answer to a whole one.

    A client of a few lines, so that the two processors work for the registry and not for it.
    """
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    size = len(upload.body)
    left = size if share == 1.0 else int(size * share)
    head = f"PUT /api/v1/blobs/{upload.sha256} HTTP/1.1\r\nHost: registry\r\n"
    try:
        writer.write(f"{head}Connection: close\r\nContent-Length: {size}\r\n\r\n".encode())
        for piece in upload.pieces():
            writer.write(piece[:left])
            await writer.drain()
            left -= len(piece)
            if left <= 0:
                break
        words = (await reader.readline()).split() if share == 1.0 else []
        return int(words[1]) if words else None
    except ConnectionError:
        return None
    finally:
        # Without a word: what was cut looks to the registry as if the network went away.
        writer.transport.abort()


def _is_there(client: httpx.Client, sha256: str) -> bool:
    return client.head(f"/api/v1/blobs/{sha256}").status_code == httpx.codes.OK

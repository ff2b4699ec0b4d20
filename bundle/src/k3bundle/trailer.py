"""The trailer of a bundle file: a skippable zstd frame that makes every flipped bit known.

Layout: frame magic (4 bytes), frame size (4), a mark of 8 bytes for each file inside in order, the
number of marks (4), `K3-EVAL1`, and the SHA-256 of all bytes of the bundle file before it. Numbers
are little-endian. The digest says that something is damaged, the marks say which file. Neither
is a signature.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

__all__ = ["Trailer", "make_trailer", "mark", "split_trailer"]

_FRAME_MAGIC: Final = (0x184D2A5B).to_bytes(4, "little")
_NAME: Final = b"K3-EVAL1"
_MARK_BYTES: Final = 8
_COUNT_BYTES: Final = 4
_DIGEST_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 8
_TAIL_BYTES: Final = _COUNT_BYTES + len(_NAME) + _DIGEST_BYTES

Trailer = tuple[bytes, ...]
"""The marks, in the order of the files."""


def mark(name: str, content: bytes) -> bytes:
    """The mark of one file: the first bytes of a digest over its name and content."""
    digest = sha256(len(name).to_bytes(4, "little") + name.encode("ascii"))
    digest.update(content)
    return digest.digest()[:_MARK_BYTES]


def make_trailer(frame: bytes, marks: Sequence[bytes]) -> bytes:
    """Build the trailer that follows a zstd frame."""
    body = b"".join(marks) + len(marks).to_bytes(_COUNT_BYTES, "little") + _NAME
    size = len(body) + _DIGEST_BYTES
    undigested = _FRAME_MAGIC + size.to_bytes(4, "little") + body
    return undigested + _digest(frame, undigested)


def split_trailer(
    data: bytes, most_files: int
) -> tuple[memoryview, Trailer, Callable[[], bool]] | None:
    """Split a bundle file into zstd frame and trailer.

    Args:
        data: All bytes of the bundle file.
        most_files: Largest number of marks that is believed.

    Returns:
        The frame, the marks, and what tells whether the digest fits, which takes as long as hashing
        the file; None when there is no trailer.
    """
    tail = data[-_TAIL_BYTES:]
    count = int.from_bytes(tail[:_COUNT_BYTES], "little")
    size = count * _MARK_BYTES + _TAIL_BYTES
    at = len(data) - size - _FRAME_HEADER_BYTES
    if count > most_files or at < 0 or tail[_COUNT_BYTES:-_DIGEST_BYTES] != _NAME:
        return None
    if data[at : at + _FRAME_HEADER_BYTES] != _FRAME_MAGIC + size.to_bytes(4, "little"):
        return None
    first = at + _FRAME_HEADER_BYTES
    starts = range(first, first + count * _MARK_BYTES, _MARK_BYTES)
    marks = tuple(data[start : start + _MARK_BYTES] for start in starts)
    # A view: the frame is nearly the whole file, which may be large.
    frame = memoryview(data)[:at]
    undigested = data[at:-_DIGEST_BYTES]
    return frame, marks, lambda: _digest(frame, undigested) == tail[-_DIGEST_BYTES:]


def _digest(frame: bytes | memoryview, undigested: bytes) -> bytes:
    digest = sha256(frame)
    digest.update(undigested)
    return digest.digest()

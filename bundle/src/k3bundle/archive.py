"""Bundle files on disk: a canonical tar in one zstd frame, then a trailer with a digest.

The trailer is a skippable zstd frame, so `zstd -d` and `tar --zstd` read a bundle as it is. Its
digest covers every byte before it, so that no flipped bit goes unnoticed; it is no signature.
"""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3bundle.trailer import make_trailer, mark, split_trailer
from k3bundle.ustar import ArchiveLimits, read_ustar, refuse_bad_files, write_ustar

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "DEFAULT_LIMITS",
    "ArchiveLimits",
    "archive_bytes",
    "read_archive",
    "read_archive_bytes",
    "write_archive",
]

DEFAULT_LIMITS: Final = ArchiveLimits()

_WINDOW_LOG: Final = 27
_STEP_BYTES: Final = 1 << 20
_DAMAGED_STEP_BYTES: Final = 256
_WORTH_A_THREAD_BYTES: Final = 1 << 20
_HINT: Final = "Take the bundle file again from where it was made, or make it again with k3-eval."

T = TypeVar("T")


def archive_bytes(files: Mapping[str, bytes], limits: ArchiveLimits = DEFAULT_LIMITS) -> bytes:
    """Pack files into the bytes of a bundle file.

    Args:
        files: Path inside the bundle -> content.
        limits: Files that a reader with these limits would refuse are refused.

    Returns:
        The zstd frame and the trailer.

    Raises:
        BundleError: A name or a size is refused.
    """
    refuse_bad_files(files, limits)
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: 12,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    # A block per header and per content: damage in one file leaves those before it readable.
    pieces = [compressor.compress(p, zstd.ZstdCompressor.FLUSH_BLOCK) for p in write_ustar(files)]
    frame = b"".join(pieces) + compressor.flush()
    packed = frame + make_trailer(frame, [mark(n, c) for n, c in sorted(files.items())])
    if len(packed) > limits.archive_bytes:
        raise BundleError((_too_large("the bundle file", len(packed), limits),))
    return packed


def write_archive(files: Mapping[str, bytes], path: Path) -> None:
    """Write a bundle file whole or not at all.

    The content goes to a temporary file in the same folder, is synced, and takes its name only
    then. When anything fails, for example because the disk is full, nothing is left behind.

    Args:
        files: Path inside the bundle -> content.
        path: The bundle file; replaced when it exists.

    Raises:
        BundleError: A name or a size is refused.
        OSError: The disk is full or the folder cannot be written.
    """
    packed = archive_bytes(files)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(packed)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_archive(path: Path, limits: ArchiveLimits = DEFAULT_LIMITS) -> Mapping[str, bytes]:
    """Read a bundle file.

    Args:
        path: The bundle file.
        limits: Sizes and counts that are taken at most.

    Returns:
        Path inside the bundle -> content. Contents are not verified beyond the trailer's digest.

    Raises:
        BundleError: The file cannot be read, is damaged, too large or not canonical.
    """
    where = ascii(path.name)[1:-1]
    try:
        # Not blocking, so that a named pipe in place of a file is refused and not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _framing(where, "Expected a regular file, found another kind.")
            if found.st_size > limits.archive_bytes:
                raise BundleError((_too_large("the bundle file", found.st_size, limits),))
            # Memory for as many bytes as there are, and not for as many as there may be.
            data = stream.read(found.st_size + 1)
    except (OSError, ValueError) as error:
        why = f"Expected a bundle file that can be read, found: {error.__class__.__name__}."
        raise _framing(where, why) from error
    return read_archive_bytes(data, limits)


def read_archive_bytes(data: bytes, limits: ArchiveLimits = DEFAULT_LIMITS) -> Mapping[str, bytes]:
    """Read the bytes of a bundle file. See `read_archive`."""
    if len(data) > limits.archive_bytes:
        raise BundleError((_too_large("the bundle file", len(data), limits),))
    parts = split_trailer(data, limits.files)
    if parts is None:
        why = "Expected the trailer of a bundle file at its end, found none: it is cut short, has "
        raise _framing("the bundle file", why + "bytes added, has a damaged end, or is no bundle.")
    frame, marks, is_intact = parts
    with ThreadPoolExecutor(1) as helper:
        intact = _beside(helper, len(data), is_intact)
        try:
            files = _files(frame, marks, limits, helper)
        except BundleError:
            # Where a byte is wrong, which file it is in says more than what the reader met.
            if intact():
                raise
        if not intact():
            raise _damage(frame, marks, limits)
    return files


def _files(
    frame: memoryview, marks: tuple[bytes, ...], limits: ArchiveLimits, helper: Executor
) -> Mapping[str, bytes]:
    source = _Frame(frame, step_bytes=_STEP_BYTES)
    files: dict[str, bytes] = {}
    found: list[Callable[[], bytes]] = []
    for name, content in read_ustar(source.read, limits):
        if content is not None:
            files[name] = content
            found.append(_beside(helper, len(content), partial(mark, name, content)))
    source.refuse_rest()
    if marks != tuple(each() for each in found):
        raise _framing("the trailer", "Expected the marks of the files inside, found others.")
    return files


def _beside(helper: Executor, size_bytes: int, work: Callable[[], T]) -> Callable[[], T]:
    """Hash so many bytes; where that takes a while, in a thread, which hashing leaves free."""
    if size_bytes < _WORTH_A_THREAD_BYTES:
        done = work()
        return lambda: done
    return helper.submit(work).result


class _Frame:
    """One zstd frame as a byte source that never gives more than is asked for."""

    def __init__(self, frame: memoryview, *, step_bytes: int, fine_from: int = sys.maxsize) -> None:
        self._frame = frame
        self._step_bytes = step_bytes
        self._fine_from = fine_from
        self.fed_bytes = 0
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        self._decompressor = zstd.ZstdDecompressor(options=options)

    def read(self, size: int) -> bytes:
        """Give up to `size` bytes, and none only at the end."""
        while not self._decompressor.eof:
            piece = b""
            if self._decompressor.needs_input:
                step = 1 if self.fed_bytes >= self._fine_from else self._step_bytes
                piece = bytes(self._frame[self.fed_bytes : self.fed_bytes + step])
                self.fed_bytes += len(piece)
                if not piece:
                    break
            try:
                output = self._decompressor.decompress(piece, max_length=size)
            except (zstd.ZstdError, MemoryError) as error:
                why = f"Expected a zstd frame, found it damaged: {error}."
                raise _framing("the zstd frame", why) from error
            if output:
                return output
        return b""

    def refuse_rest(self) -> None:
        """Refuse a frame that is not finished or is followed by anything."""
        if not self._decompressor.eof:
            raise _framing("the zstd frame", "Expected the end of the frame, found it cut short.")
        if self._decompressor.unused_data or self.fed_bytes < len(self._frame):
            raise _framing("the zstd frame", "Expected one zstd frame, found more bytes after it.")


def _damage(frame: memoryview, marks: tuple[bytes, ...], limits: ArchiveLimits) -> BundleError:
    """Name the damaged file of a bundle file whose digest does not fit.

    Damage spreads forwards only, so the first file that differs from its mark is the damaged one.
    """
    step = _DAMAGED_STEP_BYTES
    probe = _Frame(frame, step_bytes=step)
    _first_damaged(probe, marks, limits)
    # The step that meets the damage gives nothing, not even what was whole: take it in bytes.
    fine_from = probe.fed_bytes - step
    differs = _first_damaged(_Frame(frame, step_bytes=step, fine_from=fine_from), marks, limits)
    if differs is None:
        why = "Expected the digest of the trailer, found another: the framing is damaged."
        return _framing("the bundle file", why)
    why = "Expected the content that was packed, found it damaged."
    return BundleError((Finding("file-digest", differs, why, _HINT),))


def _first_damaged(source: _Frame, marks: tuple[bytes, ...], limits: ArchiveLimits) -> str | None:
    reached: str | None = None
    differs: str | None = None
    expected = iter(marks)
    try:
        for name, content in read_ustar(source.read, limits):
            reached = name if content is None else None
            if content is not None and mark(name, content) != next(expected, b""):
                differs = differs or name
        source.refuse_rest()
    except BundleError:
        return differs or reached
    # The frame's own checksum fits, so it is the trailer that is damaged.
    return None


def _framing(where: str, why: str) -> BundleError:
    return BundleError((Finding("archive-framing", where, why, _HINT),))


def _too_large(where: str, size: int, limits: ArchiveLimits) -> Finding:
    why = f"Expected at most {limits.archive_bytes} bytes, found {size} or more."
    hint = "Make a smaller run: fewer requests or fewer logs."
    return Finding("archive-too-large", where, why, hint)

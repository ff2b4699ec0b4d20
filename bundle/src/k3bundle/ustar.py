"""Canonical ustar: one set of files has exactly one tar byte string.

A reader rebuilds each header from the name and the size and demands equality, so links, devices,
folders, extensions, owners, dates and modes all fail one comparison. GNU tar reads the result.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from k3bundle.errors import BundleError
from k3bundle.finding import Finding, FindingCode

__all__ = ["ArchiveLimits", "read_ustar", "refuse_bad_files", "write_ustar"]

BLOCK: Final = 512
_NAME: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,63}){0,5}"
)
_LONGEST_NAME: Final = 100
_LARGEST_USTAR_SIZE: Final = 8**11 - 1
_ZERO_BLOCK: Final = bytes(BLOCK)
_READ_BYTES: Final = 1 << 20
_HINT: Final = "Take the bundle file again from where it was made, or make it again with k3-eval."


@dataclass(frozen=True)
class ArchiveLimits:
    """What a reader takes at most. Checked before memory is used."""

    archive_bytes: int = 64 << 20
    """Size of the compressed file."""
    file_bytes: int = 256 << 20
    """Size of one file inside."""
    total_bytes: int = 512 << 20
    """Sum of the sizes of all files inside."""
    files: int = 1024
    """Number of files inside."""


def write_ustar(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the canonical tar of files, in pieces: a header, a content, a header, and so on.

    Args:
        files: Path -> content.

    Yields:
        Byte strings whose lengths are multiples of 512.

    Raises:
        ValueError: A name or a size has no canonical header.
    """
    for name in sorted(files):
        content = files[name]
        yield _header(name, len(content))
        yield content + bytes(-len(content) % BLOCK)
    yield _ZERO_BLOCK * 2


def refuse_bad_files(files: Mapping[str, bytes], limits: ArchiveLimits) -> None:
    """Refuse files that a reader with these limits would refuse.

    Raises:
        BundleError: With a finding for every bad name and every limit passed.
    """
    found: list[Finding] = []
    for name, content in sorted(files.items()):
        if not _is_name(name):
            found.append(_finding("archive-framing", ascii(name)[:120], _why_name(ascii(name))))
        if len(content) > limits.file_bytes:
            found.append(_too_large(name, len(content), limits.file_bytes))
    total = sum(len(content) for content in files.values())
    if total > limits.total_bytes:
        found.append(_too_large("all files together", total, limits.total_bytes))
    if len(files) > limits.files:
        found.append(_too_many(limits))
    if found:
        raise BundleError(tuple(sorted(found)))


def read_ustar(
    read: Callable[[int], bytes], limits: ArchiveLimits
) -> Iterator[tuple[str, bytes | None]]:
    """Read a canonical tar from a byte source.

    Args:
        read: Returns up to n bytes, and fewer only at the end of the source.
        limits: Checked before a file's content is read.

    Yields:
        For each file, first `(name, None)` when its header was read, then `(name, content)`.

    Raises:
        BundleError: With one finding, at the first byte that is not canonical.
    """
    last, count, total = "", 0, 0
    while True:
        header = _read_exactly(read, BLOCK, last or "the first file")
        if header == _ZERO_BLOCK:
            _read_end(read, last)
            return
        name, size = _parse_header(header, last)
        count, total = count + 1, total + size
        if count > limits.files:
            raise BundleError((_too_many(limits),))
        if size > limits.file_bytes:
            raise BundleError((_too_large(name, size, limits.file_bytes),))
        if total > limits.total_bytes:
            raise BundleError((_too_large("all files together", total, limits.total_bytes),))
        yield name, None
        content = _read_exactly(read, size, name)
        if any(_read_exactly(read, -size % BLOCK, name)):
            raise _framing(name, "Expected zero bytes after the file, found others.")
        yield name, content
        last = name


def _header(name: str, size: int) -> bytes:
    if not _is_name(name):
        raise ValueError(_why_name(ascii(name)))
    if not 0 <= size <= _LARGEST_USTAR_SIZE:
        raise ValueError(f"Expected a file of at most {_LARGEST_USTAR_SIZE} bytes, found {size}.")
    fields = (
        (0, name.encode("ascii")),
        (100, b"0000644\0"),
        (108, b"0000000\0" * 2),
        (124, b"%011o\0" % size),
        (136, b"00000000000\0"),
        (148, b" " * 8),
        (156, b"0"),
        (257, b"ustar\00000"),
        (329, b"0000000\0" * 2),
    )
    header = bytearray(BLOCK)
    for offset, value in fields:
        header[offset : offset + len(value)] = value
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _parse_header(header: bytes, last: str) -> tuple[str, int]:
    after = f"after {last}" if last else "at the start"
    name_bytes = header[:_LONGEST_NAME].rstrip(b"\0")
    name = name_bytes.decode("ascii", "backslashreplace")
    if not (name_bytes.isascii() and _is_name(name)):
        raise _framing(ascii(name)[:120], _why_name(ascii(name)))
    digits = header[124:135]
    size = int(digits, 8) if re.fullmatch(rb"[0-7]{11}", digits) else -1
    if size < 0 or header != _header(name, size):
        why = f"Expected the canonical header of a plain file {after}, found another."
        raise _framing(name, why)
    if name <= last:
        raise _framing(name, f"Expected names in order without repetition, found {name} {after}.")
    return name, size


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None


def _why_name(shown: str) -> str:
    return (
        "Expected a relative path of at most 100 letters, digits, dots, dashes and underscores "
        f"whose parts start with a letter or digit, found {shown[:120]}."
    )


def _read_exactly(read: Callable[[int], bytes], size: int, where: str) -> bytes:
    # A claimed size is not trusted with memory: it grows only as bytes really come.
    pieces: list[bytes] = []
    missing = size
    while missing:
        piece = read(min(missing, _READ_BYTES))
        if not piece:
            why = f"Expected {missing} more bytes, found the end: the archive is cut short."
            raise _framing(where, why)
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _read_end(read: Callable[[int], bytes], last: str) -> None:
    where = last or "the archive"
    if _read_exactly(read, BLOCK, where) != _ZERO_BLOCK:
        raise _framing(where, "Expected two zero blocks at the end, found one.")
    if read(1):
        raise _framing(where, "Expected the end after two zero blocks, found more bytes.")


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)


def _framing(where: str, why: str) -> BundleError:
    return BundleError((_finding("archive-framing", where, why),))


def _too_large(where: str, size: int, limit: int) -> Finding:
    why = f"Expected at most {limit} bytes, found {size}."
    hint = "Make a smaller run: fewer requests or fewer logs."
    return Finding("archive-too-large", where, why, hint)


def _too_many(limits: ArchiveLimits) -> Finding:
    why = f"Expected at most {limits.files} files, found more."
    return Finding("archive-too-large", "the archive", why, "Put fewer log files into the run.")

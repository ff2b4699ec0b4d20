"""Bundle files whose packing is bad."""

import io
import sys
import tarfile
from collections.abc import Callable
from typing import Final

from k3bundle import layout
from k3bundle.trailer import make_trailer, mark
from k3bundle.ustar import write_ustar
from k3bundle_testing.defect import Defect, Files
from k3bundle_testing.sealing import sealed_archive, sealed_bundle

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["ARCHIVE_DEFECTS"]

_BOMB_BYTES: Final = 300 << 20
_RIGHT_TO_LEFT: Final = "logs/\u202egol.txt"
_LOOK_ALIKE: Final = "r\u0435quests.jsonl"


def _packed(tar: bytes, files: Files) -> bytes:
    """Pack any bytes as a frame with a right trailer."""
    frame = zstd.compress(tar)
    return frame + make_trailer(frame, [mark(n, c) for n, c in sorted(files.items())])


def _tar() -> bytes:
    return b"".join(write_ustar(sealed_bundle()))


def _hostile(change: Callable[[tarfile.TarInfo], None], content: bytes = b"") -> bytes:
    """A tar with one strange member, as another program would write it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("logs/strange.log")
        member.size = len(content)
        change(member)
        tar.addfile(member, io.BytesIO(content))
    return _packed(stream.getvalue(), {})


def _named(name: str) -> Callable[[], bytes]:
    def change(member: tarfile.TarInfo) -> None:
        member.name = name

    return lambda: _hostile(change, b"content")


def _typed(kind: bytes, link: str = "") -> Callable[[], bytes]:
    def change(member: tarfile.TarInfo) -> None:
        member.type = kind
        member.linkname = link

    return lambda: _hostile(change)


def _setuid() -> bytes:
    def change(member: tarfile.TarInfo) -> None:
        member.mode = 0o4755

    return _hostile(change, b"content")


def _pax_header() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("plan.json")
        member.pax_headers = {"path": "../plan.json"}
        tar.addfile(member)
    return _packed(stream.getvalue(), {})


def _flipped_in_requests() -> bytes:
    data = bytearray(sealed_archive())
    data[len(data) * 3 // 5] ^= 1
    return bytes(data)


def _flipped_in_digest() -> bytes:
    data = bytearray(sealed_archive())
    data[-1] ^= 1
    return bytes(data)


def _wrong_marks() -> bytes:
    files = dict.fromkeys(sealed_bundle(), b"")
    return _packed(_tar(), files)


def _repeated_member() -> bytes:
    one = b"".join(write_ustar({"plan.json": b"{}"}))[:-1024]
    return _packed(one + one + bytes(1024), {})


def _unsorted_members() -> bytes:
    one = b"".join(write_ustar({"plan.json": b"{}"}))[:-1024]
    other = b"".join(write_ustar({"boots.jsonl": b""}))
    return _packed(one + other, {})


def _padding() -> bytes:
    tar = bytearray(b"".join(write_ustar({"plan.json": b"{}"})))
    tar[600] = 1
    return _packed(bytes(tar), {})


def _bytes_after_the_end() -> bytes:
    return _packed(_tar() + bytes(512), sealed_bundle())


def _two_frames() -> bytes:
    tar = _tar()
    frame = zstd.compress(tar[:1024]) + zstd.compress(tar[1024:])
    return frame + make_trailer(frame, [mark(n, c) for n, c in sorted(sealed_bundle().items())])


def _bomb() -> bytes:
    compressor = zstd.ZstdCompressor()
    header = next(write_ustar({"logs/bomb.log": b"x" * 8}))
    # The header is that of a large file, made from the canonical one without the large content.
    field = b"%011o\0" % _BOMB_BYTES
    large = bytearray(header)
    large[124:136] = field
    large[148:156] = b" " * 8
    large[148:156] = b"%06o\0 " % sum(large)
    pieces = [compressor.compress(bytes(large))]
    zeros = bytes(1 << 20)
    pieces += [compressor.compress(zeros) for _ in range(_BOMB_BYTES >> 20)]
    frame = b"".join(pieces) + compressor.compress(bytes(1024)) + compressor.flush()
    return frame + make_trailer(frame, [bytes(8)])


def _many_files() -> bytes:
    files = {f"logs/{number:05d}.log": b"" for number in range(2000)}
    return _packed(b"".join(write_ustar(files)), {})


def _bare_tar() -> bytes:
    return _tar()


def _framing(name: str, where: str, make: Callable[[], bytes]) -> Defect:
    return Defect(name, "archive-framing", where, make)


ARCHIVE_DEFECTS: Final = (
    _framing("empty_file", "the bundle file", lambda: b""),
    _framing("zip_archive", "the bundle file", lambda: b"PK\x05\x06" + bytes(18)),
    _framing("bare_tar_without_zstd", "the bundle file", _bare_tar),
    _framing("file_cut_at_1536_bytes", "the bundle file", lambda: sealed_archive()[:1536]),
    _framing("last_byte_missing", "the bundle file", lambda: sealed_archive()[:-1]),
    _framing("bytes_added_at_the_end", "the bundle file", lambda: sealed_archive() + b"\n"),
    _framing("bundle_twice_in_one_file", "the bundle file", lambda: sealed_archive() * 2),
    _framing("trailer_digest_flipped", "the bundle file", _flipped_in_digest),
    _framing("trailer_marks_of_other_files", "the trailer", _wrong_marks),
    Defect("byte_flipped_in_requests", "file-digest", layout.REQUESTS, _flipped_in_requests),
    _framing("tar_cut_at_1536_bytes", "attestation.dsse.json", lambda: _packed(_tar()[:1536], {})),
    _framing("tar_without_end", "verdict.json", lambda: _packed(_tar()[:-1024], {})),
    _framing("tar_with_bytes_after_its_end", "verdict.json", _bytes_after_the_end),
    _framing("tar_padding_not_zero", "plan.json", _padding),
    _framing("two_zstd_frames", "attempts.jsonl", _two_frames),
    _framing("path_traversal", "'../evil", _named("../evil.log")),
    _framing("path_absolute", "'/etc", _named("/etc/passwd")),
    _framing("path_hidden", "'logs/.", _named("logs/.hidden")),
    _framing("path_with_newline", "'logs/a", _named("logs/a\nb.log")),
    _framing("path_right_to_left", "'logs/", _named(_RIGHT_TO_LEFT)),
    _framing("path_look_alike", "'r", _named(_LOOK_ALIKE)),
    _framing("member_symbolic_link", "logs/strange.log", _typed(tarfile.SYMTYPE, "/etc/passwd")),
    _framing("member_hard_link", "logs/strange.log", _typed(tarfile.LNKTYPE, "plan.json")),
    _framing("member_device", "logs/strange.log", _typed(tarfile.CHRTYPE)),
    _framing("member_pipe", "logs/strange.log", _typed(tarfile.FIFOTYPE)),
    _framing("member_folder", "'logs/strange.log", _typed(tarfile.DIRTYPE)),
    _framing("member_setuid", "logs/strange.log", _setuid),
    _framing("member_pax_header", "", _pax_header),
    _framing("member_repeated", "plan.json", _repeated_member),
    _framing("members_unsorted", "boots.jsonl", _unsorted_members),
    Defect("zip_bomb", "archive-too-large", "logs/bomb.log", _bomb),
    Defect("too_many_files", "archive-too-large", "the archive", _many_files),
)

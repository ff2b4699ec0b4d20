"""Bundle files: packing, every flipped byte, limits, and writing whole or not at all."""

import io
import os
import resource
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.archive import (
    ArchiveLimits,
    archive_bytes,
    read_archive,
    read_archive_bytes,
    write_archive,
)
from k3bundle.errors import BundleError
from k3bundle.trailer import make_trailer
from k3bundle.ustar import write_ustar

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GOOD = (Path(__file__).parent / "bundles" / "good_v1.k3b").read_bytes()
FILES = read_archive_bytes(GOOD)
NAMES = st.from_regex(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}(/[A-Za-z0-9][A-Za-z0-9._-]{0,9}){0,3}", fullmatch=True
)


@given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=8))
def test_archive_is_read_back(files: dict[str, bytes]) -> None:
    assert dict(read_archive_bytes(archive_bytes(files))) == files


def test_archive_is_read_by_zstd_and_tar() -> None:
    plain = zstd.decompress(GOOD)
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
        contents = {m.name: _content(tar, m) for m in tar.getmembers()}
    assert contents == dict(FILES)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    assert stream is not None
    return stream.read()


def _refusal(data: bytes, limits: ArchiveLimits | None = None) -> BundleError:
    with pytest.raises(BundleError) as caught:
        read_archive_bytes(data, limits or ArchiveLimits())
    return caught.value


def test_read_every_flipped_byte_is_refused_and_never_blamed_on_another_file() -> None:
    places = _places()
    named = 0
    for at in range(len(GOOD)):
        damaged = bytearray(GOOD)
        damaged[at] ^= 1 << (at % 8)
        (finding,) = _refusal(bytes(damaged)).findings
        if finding.code == "file-digest":
            assert finding.where == places[at]
            named += 1
        else:
            assert finding.code == "archive-framing"
    assert named > 0.8 * len(GOOD)


def _places() -> list[str]:
    """For each byte of the good file, the file inside whose header or content it holds."""
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: 12,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    places: list[str] = []
    names = [name for name in sorted(FILES) for _ in ("header", "content")]
    for name, piece in zip([*names, "the end"], write_ustar(FILES), strict=True):
        packed = compressor.compress(piece, zstd.ZstdCompressor.FLUSH_BLOCK)
        places += [name] * len(packed)
    return places + ["the framing"] * (len(GOOD) - len(places))


def test_read_cut_anywhere_is_refused() -> None:
    for size in range(len(GOOD)):
        assert _refusal(GOOD[:size]).findings


@given(st.binary(max_size=300))
def test_read_any_bytes_is_a_finding(data: bytes) -> None:
    assert _refusal(data).findings


@given(st.binary(max_size=1200))
def test_read_any_tar_with_a_right_trailer_is_a_finding(tar: bytes) -> None:
    frame = zstd.compress(tar)
    assert _refusal(frame + make_trailer(frame, [])).findings


def test_read_hostile_size_claim_takes_no_time_and_no_memory() -> None:
    """A stream-mode tar reader of the standard library hangs on such a header."""
    header = bytearray(next(write_ustar({"plan.json": b""})))
    for claim in (b"77777777777\0", b"\x80" + b"\0" * 3 + b"\xff" * 8):
        header[124:136] = claim
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        frame = zstd.compress(bytes(header))
        before = time.monotonic()
        error = _refusal(frame + make_trailer(frame, []))
        assert time.monotonic() - before < 1
        assert error.findings[0].code in {"archive-too-large", "archive-framing"}


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        (ArchiveLimits(archive_bytes=1000), "the bundle file"),
        (ArchiveLimits(file_bytes=1000), "attestation.dsse.json"),
        (ArchiveLimits(total_bytes=1000), "all files together"),
    ],
)
def test_read_over_a_limit_is_refused(limits: ArchiveLimits, where: str) -> None:
    (finding,) = _refusal(GOOD, limits).findings
    assert (finding.code, finding.where) == ("archive-too-large", where)


def test_write_refuses_what_a_reader_refuses(tmp_path: Path) -> None:
    files = {"../evil": b"", "plan.json": b"", "\u202egol": b"", "a" * 101: b""}
    with pytest.raises(BundleError) as caught:
        write_archive(files, tmp_path / "run.k3b")
    assert len(caught.value.findings) == 3
    assert "\u202e" not in caught.value.diagnostics()
    assert list(tmp_path.iterdir()) == []


def test_write_then_read(tmp_path: Path) -> None:
    path = tmp_path / "run.k3b"
    write_archive(FILES, path)
    assert dict(read_archive(path)) == dict(FILES)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_write_over_an_old_file_that_fails_keeps_the_old(tmp_path: Path) -> None:
    path = tmp_path / "run.k3b"
    path.write_bytes(GOOD)
    with _largest_file(100), pytest.raises(OSError, match="File too large"):
        write_archive({"plan.json": os.urandom(5000)}, path)
    assert path.read_bytes() == GOOD
    assert list(tmp_path.iterdir()) == [path]


def test_write_when_the_disk_is_full_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_archive(FILES, tmp_path / "run.k3b")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_read_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.k3b")
    with pytest.raises(BundleError, match="Expected a regular file"):
        read_archive(tmp_path / "pipe.k3b")

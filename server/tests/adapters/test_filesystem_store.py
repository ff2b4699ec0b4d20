import errno
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from k3bundle.canonical import sha256_hex
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.ports import StoreFullError

CONTENT = b"bytes of an archive" * 1000
DIGEST = sha256_hex(CONTENT)


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def put(store: FilesystemStore, content: bytes) -> str:
    incoming = store.begin(sha256_hex(content))
    incoming.write(content)
    return incoming.commit()


def test_commit_leaves_one_read_only_file_in_its_shard(tmp_path: Path) -> None:
    put(FilesystemStore(tmp_path), CONTENT)
    assert files_below(tmp_path) == [f"cas/{DIGEST[:2]}/{DIGEST}"]
    mode = (tmp_path / "cas" / DIGEST[:2] / DIGEST).stat().st_mode
    assert stat.S_IMODE(mode) == 0o444


def test_clear_incoming_removes_what_a_crash_left_and_keeps_what_is_stored(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    put(store, CONTENT)
    crashed = store.begin("ab" * 32)
    crashed.write(b"half of it")
    assert len(files_below(tmp_path)) == 2
    again = FilesystemStore(tmp_path)
    again.clear_incoming()
    assert files_below(tmp_path) == [f"cas/{DIGEST[:2]}/{DIGEST}"]
    assert again.size(DIGEST) == len(CONTENT)
    crashed.discard()


@pytest.mark.parametrize("call", ["fsync", "link"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_commit_on_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    store = FilesystemStore(tmp_path)
    incoming = store.begin(DIGEST)
    incoming.write(CONTENT)

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(StoreFullError):
            incoming.commit()
    assert files_below(tmp_path) == []
    assert put(store, b"small") == "created"


def test_write_error_that_is_not_a_full_disk_is_not_called_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FilesystemStore(tmp_path)
    incoming = store.begin(DIGEST)
    incoming.write(CONTENT)

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", broken)
        with pytest.raises(OSError, match="Input/output error"):
            incoming.commit()
    assert files_below(tmp_path) == []


def test_sweep_removes_only_what_is_old(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    old, young = store.begin("ab" * 32), store.begin("cd" * 32)
    (path,) = (tmp_path / "incoming").glob("abab*")
    os.utime(path, (1_000_000, 1_000_000))
    assert store.sweep(datetime.now(UTC) - timedelta(hours=1)) == 1
    assert [name[:13] for name in files_below(tmp_path)] == ["incoming/cdcd"]
    old.discard()
    young.discard()

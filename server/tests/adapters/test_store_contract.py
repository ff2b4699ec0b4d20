"""What every store must do, run on every adapter with real servers behind it."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from k3bundle.canonical import sha256_hex
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.s3_store import S3Store
from k3server.ports import BundleStore, DigestMismatchError
from k3server_testing.memory_store import MemoryStore
from k3server_testing.services.object_stores import RcloneStore, SeaweedStore

STORES: dict[str, Callable[[pytest.FixtureRequest, Path], BundleStore]] = {
    "filesystem": lambda _, folder: FilesystemStore(folder),
    "memory": lambda _request, _folder: MemoryStore(),
    "rclone": lambda request, _: request.getfixturevalue("rclone_store"),
    "seaweed": lambda request, _: request.getfixturevalue("seaweed_store"),
}
# More than one part of an object in the stores that write large objects in parts.
LARGE_BYTES = 17 * 1024 * 1024


@pytest.fixture(scope="module")
def rclone_store(rclone: RcloneStore, tmp_path_factory: pytest.TempPathFactory) -> S3Store:
    return S3Store(rclone.location, tmp_path_factory.mktemp("spool"))


@pytest.fixture(scope="module")
def seaweed_store(seaweed: SeaweedStore, tmp_path_factory: pytest.TempPathFactory) -> S3Store:
    return S3Store(seaweed.location, tmp_path_factory.mktemp("spool"))


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BundleStore:
    return STORES[request.param](request, tmp_path)


@pytest.fixture
def content(request: pytest.FixtureRequest) -> bytes:
    """Bytes of this test alone: the object stores keep what other tests stored."""
    return str(request.node.name).encode() * 500


@pytest.fixture
def digest(content: bytes) -> str:
    return sha256_hex(content)


def put(store: BundleStore, content: bytes, digest: str) -> str:
    incoming = store.begin(digest)
    try:
        step = max(700, len(content) // 8)
        for start in range(0, len(content), step):
            incoming.write(content[start : start + step])
        return incoming.commit()
    finally:
        incoming.discard()


def test_commit_makes_the_blob_readable(store: BundleStore, content: bytes, digest: str) -> None:
    assert store.size(digest) is None
    assert put(store, content, digest) == "created"
    assert store.size(digest) == len(content)
    with store.open(digest) as file:
        assert file.read() == content
    with store.materialise(digest) as path:
        assert path.read_bytes() == content


def test_commit_again_finds_the_blob_existing(
    store: BundleStore, content: bytes, digest: str
) -> None:
    put(store, content, digest)
    assert put(store, content, digest) == "existing"
    with store.open(digest) as file:
        assert file.read() == content


def test_commit_other_content_keeps_nothing(
    store: BundleStore, content: bytes, digest: str
) -> None:
    with pytest.raises(DigestMismatchError) as caught:
        put(store, content + b"!", digest)
    assert caught.value.expected == digest
    assert caught.value.found == sha256_hex(content + b"!")
    assert store.size(digest) is None


def test_discard_keeps_nothing(store: BundleStore, content: bytes, digest: str) -> None:
    incoming = store.begin(digest)
    incoming.write(content)
    incoming.discard()
    assert store.size(digest) is None


def test_open_unknown_blob_is_a_key_error(store: BundleStore, digest: str) -> None:
    with pytest.raises(KeyError, match=digest):
        store.open(digest)
    with pytest.raises(KeyError, match=digest), store.materialise(digest):
        pass


def test_commit_at_once_has_one_winner(store: BundleStore, content: bytes, digest: str) -> None:
    outcomes: list[str] = []
    ready = threading.Barrier(6)

    def race() -> None:
        incoming = store.begin(digest)
        incoming.write(content)
        ready.wait(10)
        outcomes.append(incoming.commit())

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(outcomes)[0] == "created"
    assert store.size(digest) == len(content)


def test_large_blob_is_whole_or_not_there(store: BundleStore, content: bytes) -> None:
    large = (content * (LARGE_BYTES // len(content) + 1))[:LARGE_BYTES]
    with pytest.raises(DigestMismatchError):
        put(store, large[:-1] + b"?", sha256_hex(large))
    assert store.size(sha256_hex(large)) is None
    assert put(store, large, sha256_hex(large)) == "created"
    assert store.size(sha256_hex(large)) == LARGE_BYTES
    with store.materialise(sha256_hex(large)) as path:
        assert sha256_hex(path.read_bytes()) == sha256_hex(large)


def test_iterate_lists_what_is_stored_and_remove_takes_it_away(
    store: BundleStore, content: bytes, digest: str
) -> None:
    put(store, content, digest)
    other = content + b"other"
    put(store, other, sha256_hex(other))
    listed = {blob.sha256: blob.size_bytes for blob in store.iterate()}
    assert listed[digest] == len(content)
    assert listed[sha256_hex(other)] == len(other)
    store.remove(digest)
    store.remove(digest)
    assert store.size(digest) is None
    assert digest not in {blob.sha256 for blob in store.iterate()}
    assert store.size(sha256_hex(other)) == len(other)


def test_sweep_leaves_what_is_stored(store: BundleStore, content: bytes, digest: str) -> None:
    put(store, content, digest)
    store.sweep(datetime.now(UTC) + timedelta(hours=1))
    assert store.size(digest) == len(content)

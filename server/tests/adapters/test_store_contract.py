"""What every store must do, run on every adapter."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from k3bundle.canonical import sha256_hex
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.ports import BundleStore, DigestMismatchError
from k3server_testing.memory_store import MemoryStore

ADAPTERS: dict[str, Callable[[Path], BundleStore]] = {
    "filesystem": FilesystemStore,
    "memory": lambda _: MemoryStore(),
}
CONTENT = b"bytes of an archive" * 1000
DIGEST = sha256_hex(CONTENT)


@pytest.fixture(params=sorted(ADAPTERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BundleStore:
    return ADAPTERS[request.param](tmp_path)


def put(store: BundleStore, content: bytes, digest: str) -> str:
    incoming = store.begin(digest)
    try:
        for start in range(0, len(content), 700):
            incoming.write(content[start : start + 700])
        return incoming.commit()
    finally:
        incoming.discard()


def test_commit_makes_the_blob_readable(store: BundleStore) -> None:
    assert store.size(DIGEST) is None
    assert put(store, CONTENT, DIGEST) == "created"
    assert store.size(DIGEST) == len(CONTENT)
    with store.open(DIGEST) as file:
        assert file.read() == CONTENT
    with store.materialise(DIGEST) as path:
        assert path.read_bytes() == CONTENT


def test_commit_again_finds_the_blob_existing(store: BundleStore) -> None:
    put(store, CONTENT, DIGEST)
    assert put(store, CONTENT, DIGEST) == "existing"
    with store.open(DIGEST) as file:
        assert file.read() == CONTENT


def test_commit_other_content_keeps_nothing(store: BundleStore) -> None:
    with pytest.raises(DigestMismatchError) as caught:
        put(store, CONTENT + b"!", DIGEST)
    assert caught.value.expected == DIGEST
    assert caught.value.found == sha256_hex(CONTENT + b"!")
    assert store.size(DIGEST) is None


def test_discard_keeps_nothing(store: BundleStore) -> None:
    incoming = store.begin(DIGEST)
    incoming.write(CONTENT)
    incoming.discard()
    assert store.size(DIGEST) is None


def test_open_unknown_blob_is_a_key_error(store: BundleStore) -> None:
    with pytest.raises(KeyError, match=DIGEST):
        store.open(DIGEST)
    with pytest.raises(KeyError, match=DIGEST), store.materialise(DIGEST):
        pass


def test_commit_at_once_has_one_winner(store: BundleStore) -> None:
    outcomes: list[str] = []
    ready = threading.Barrier(6)

    def race() -> None:
        incoming = store.begin(DIGEST)
        incoming.write(CONTENT)
        ready.wait(10)
        outcomes.append(incoming.commit())

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(outcomes)[0] == "created"
    assert store.size(DIGEST) == len(CONTENT)

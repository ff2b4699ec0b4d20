"""What is particular to object stores: what they honour, what they lie about, and their absence."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from k3bundle.canonical import sha256_hex
from k3server.adapters.s3_client import S3Location, make_client
from k3server.adapters.s3_probe import Capabilities
from k3server.adapters.s3_store import S3Store
from k3server.errors import MachineError
from k3server.ports import StoreUnavailableError
from k3server_testing.services.child import free_port
from k3server_testing.services.object_stores import BUCKET, RcloneStore, SeaweedStore

CONTENT = b"an archive of the object store's own tests" * 100
DIGEST = sha256_hex(CONTENT)
KEY = f"cas/{DIGEST[:2]}/{DIGEST}"


def put(store: S3Store, content: bytes) -> str:
    incoming = store.begin(sha256_hex(content))
    incoming.write(content)
    return incoming.commit()


def test_probe_finds_what_each_store_honours(
    seaweed: SeaweedStore, rclone: RcloneStore, tmp_path: Path
) -> None:
    strict = S3Store(seaweed.location, tmp_path).capabilities
    weak = S3Store(rclone.location, tmp_path).capabilities
    assert strict == Capabilities(conditional_put=True, checks_sha256=True, range_reads=True)
    assert (weak.conditional_put, weak.checks_sha256) == (False, False)
    for server in (seaweed, rclone):
        client = make_client(server.location, endpoint=server.location.endpoint)
        assert "Contents" not in client.list_objects_v2(Bucket=BUCKET, Prefix="probe/")


def test_materialise_notices_that_the_store_has_other_bytes(
    seaweed: SeaweedStore, tmp_path: Path
) -> None:
    store = S3Store(seaweed.location, tmp_path)
    put(store, CONTENT)
    client = make_client(seaweed.location, endpoint=seaweed.location.endpoint)
    client.put_object(Bucket=BUCKET, Key=KEY, Body=CONTENT[:-1] + b"?")
    with (
        pytest.raises(StoreUnavailableError, match="other bytes"),
        store.materialise(DIGEST) as path,
    ):
        raise AssertionError(path)
    store.remove(DIGEST)


def test_weak_store_that_keeps_other_bytes_is_noticed_before_the_answer(
    rclone: RcloneStore, tmp_path: Path
) -> None:
    """The object is read again, because this store would take anything."""
    store = S3Store(rclone.location, tmp_path)
    incoming = store.begin(DIGEST)
    incoming.write(CONTENT)
    incoming._buffer[0] ^= 1
    with pytest.raises(StoreUnavailableError, match="kept other bytes"):
        incoming.commit()
    assert store.size(DIGEST) is None


def test_download_url_gives_the_bytes_as_an_attachment_and_only_with_its_signature(
    seaweed: SeaweedStore, tmp_path: Path
) -> None:
    location = S3Location(
        bucket=BUCKET,
        endpoint=seaweed.location.endpoint,
        public_endpoint=seaweed.location.endpoint,
    )
    store = S3Store(location, tmp_path)
    put(store, CONTENT)
    url = store.download_url(DIGEST, "a.k3b")
    assert url is not None
    answer = httpx.get(url)
    assert answer.content == CONTENT
    assert answer.headers["content-disposition"] == 'attachment; filename="a.k3b"'
    assert httpx.get(url.split("?")[0]).status_code == 403
    assert S3Store(seaweed.location, tmp_path).download_url(DIGEST, "a.k3b") is None
    store.remove(DIGEST)


@pytest.mark.parametrize(
    ("bucket", "secret", "words"),
    [
        ("no-such-bucket", None, "found the answer NoSuchBucket"),
        (BUCKET, "not the secret", "found the answer SignatureDoesNotMatch"),
    ],
)
def test_store_that_cannot_be_used_is_a_sentence(
    seaweed: SeaweedStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    bucket: str,
    secret: str | None,
    words: str,
) -> None:
    if secret is not None:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    location = S3Location(bucket=bucket, endpoint=seaweed.location.endpoint)
    with pytest.raises(MachineError, match=words):
        S3Store(location, tmp_path)


def test_absent_store_is_a_sentence_at_the_start(store_keys: None, tmp_path: Path) -> None:
    location = S3Location(bucket=BUCKET, endpoint=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(MachineError, match="Start the store, or check --s3-endpoint"):
        S3Store(location, tmp_path)


def test_store_that_goes_away_is_unavailable_and_comes_back(
    store_keys: None, tmp_path: Path
) -> None:
    with RcloneStore() as server:
        store = S3Store(server.location, tmp_path)
        put(store, CONTENT)
        server.kill()
        with pytest.raises(StoreUnavailableError):
            store.size(DIGEST)
        with pytest.raises(StoreUnavailableError):
            put(store, b"other")
        server.start()
        assert store.size(DIGEST) == len(CONTENT)
        assert put(store, b"other") == "created"


def test_sweep_ends_unfinished_uploads_to_the_store(seaweed: SeaweedStore, tmp_path: Path) -> None:
    store = S3Store(seaweed.location, tmp_path)
    incoming = store.begin("ab" * 32)
    incoming.write(b"x" * (9 * 1024 * 1024))
    now = datetime.now(UTC)
    assert store.sweep(now - timedelta(hours=1)) == 0
    assert store.sweep(now + timedelta(hours=1)) == 1
    assert store.sweep(now + timedelta(hours=1)) == 0
    incoming.discard()

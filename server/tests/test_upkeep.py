import base64

from k3bundle.canonical import sha256_hex
from k3server.adapters.sql.blob_ledger import SqlBlobLedger
from k3server.upkeep import collect_garbage, verify_store
from k3server_testing.example_document import example_document
from k3server_testing.registry import Registry

DAY_S = 24 * 3600


def collect(registry: Registry) -> tuple[int, int, int]:
    ledger = SqlBlobLedger(registry.database)
    found = collect_garbage(
        registry.store, ledger, now=registry.clock.now(), keep_s=registry.settings.garbage_age_s
    )
    return found.blobs, found.size_bytes, found.uploads


async def test_collect_removes_what_nobody_named_after_a_day(registry: Registry) -> None:
    lost = b"sent and never submitted"
    async with registry.client() as client:
        submitted = (await registry.submit(client, example_document())).json()
        await client.put(f"/api/v1/blobs/{sha256_hex(lost)}", content=lost)
        registry.clock.advance(DAY_S - 1)
        assert collect(registry) == (0, 0, 0)
        registry.clock.advance(2)
        assert collect(registry) == (1, len(lost), 0)
        assert set(registry.store.blobs) == {submitted["blob_sha256"]}
        url = f"/api/v1/submissions/{submitted['submission_id']}/bundle"
        assert (await client.get(url)).status_code == 200


async def test_archive_that_is_sent_again_is_wanted_again(registry: Registry) -> None:
    content = b"sent twice"
    url = f"/api/v1/blobs/{sha256_hex(content)}"
    async with registry.client() as client:
        await client.put(url, content=content)
        registry.clock.advance(DAY_S - 1)
        assert (await client.put(url, content=content)).status_code == 200
        registry.clock.advance(DAY_S - 1)
    assert collect(registry) == (0, 0, 0)


async def test_collect_takes_the_parts_of_expired_and_of_completed_uploads(
    registry: Registry,
) -> None:
    registry.limit(part_size_bytes=4)
    async with registry.client() as client:
        for content in (b"expired.", b"complete"):
            digest = sha256_hex(content)
            body = {"blob_sha256": digest, "size_bytes": 8}
            upload = (await client.post("/api/v1/uploads", json=body)).json()["upload_id"]
            for number in (1, 2):
                part = content[(number - 1) * 4 : number * 4]
                encoded = base64.b64encode(bytes.fromhex(sha256_hex(part))).decode()
                await client.put(
                    f"/api/v1/uploads/{upload}/parts/{number}",
                    content=part,
                    headers={"Content-Digest": f"sha-256=:{encoded}:"},
                )
        await client.post(f"/api/v1/uploads/{upload}/complete")
    assert len(registry.store.blobs) == 5
    registry.clock.advance(DAY_S + 1)
    assert collect(registry) == (5, 4 * 4 + 8, 1)


async def test_verify_store_tells_damaged_and_missing_archives(registry: Registry) -> None:
    documents = [example_document(run_id=f"{number:032x}") for number in range(3)]
    async with registry.client() as client:
        blobs = [
            (await registry.submit(client, document)).json()["blob_sha256"]
            for document in documents
        ]
    states = [report.state for report in verify_store(registry.store, registry.index)]
    assert states == ["intact"] * 3
    registry.store.blobs[blobs[0]] = b"other"
    del registry.store.blobs[blobs[1]]
    reports = {r.blob_sha256: r.state for r in verify_store(registry.store, registry.index)}
    assert reports == {blobs[0]: "damaged", blobs[1]: "missing", blobs[2]: "intact"}

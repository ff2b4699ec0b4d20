import base64
import hashlib

import httpx

from k3bundle.canonical import sha256_hex
from k3server_testing.registry import Registry

CONTENT = bytes(number * 7 % 251 for number in range(2_500))
DIGEST = sha256_hex(CONTENT)
PART = 1_000


def part(number: int) -> bytes:
    return CONTENT[(number - 1) * PART : number * PART]


def digest_header(content: bytes) -> dict[str, str]:
    encoded = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return {"Content-Digest": f"sha-256=:{encoded}:"}


async def opened(client: httpx.AsyncClient, size: int = len(CONTENT)) -> httpx.Response:
    body = {"blob_sha256": DIGEST, "size_bytes": size}
    return await client.post("/api/v1/uploads", json=body)


async def send(
    client: httpx.AsyncClient, upload: str, number: int, content: bytes | None = None
) -> httpx.Response:
    body = part(number) if content is None else content
    url = f"/api/v1/uploads/{upload}/parts/{number}"
    return await client.put(url, content=body, headers=digest_header(body))


def in_parts(registry: Registry) -> httpx.AsyncClient:
    registry.limit(part_size_bytes=PART, max_put_bytes=PART, max_archive_bytes=10 * PART)
    return registry.client()


async def test_parts_in_any_order_make_the_archive(registry: Registry) -> None:
    async with in_parts(registry) as client:
        answer = await opened(client)
        assert answer.status_code == 201
        body = answer.json()
        assert (body["part_size_bytes"], body["part_count"], body["received"]) == (PART, 3, [])
        upload = body["upload_id"]
        sent = [await send(client, upload, number) for number in (3, 1, 2, 1)]
        assert [each.status_code for each in sent] == [201, 201, 201, 200]
        assert (await client.head(f"/api/v1/blobs/{DIGEST}")).status_code == 404
        done = await client.post(f"/api/v1/uploads/{upload}/complete")
        head = await client.head(f"/api/v1/blobs/{DIGEST}")
    assert done.status_code == 201
    assert done.json() == {"sha256": DIGEST, "size_bytes": len(CONTENT)}
    assert head.headers["content-length"] == str(len(CONTENT))
    assert registry.store.blobs[DIGEST] == CONTENT


async def test_upload_is_resumed_by_its_archive_in_another_process(registry: Registry) -> None:
    async with in_parts(registry) as client:
        upload = (await opened(client)).json()["upload_id"]
        await send(client, upload, 2)
    async with registry.client() as another:
        again = (await opened(another)).json()
        assert (again["upload_id"], again["received"]) == (upload, [2])
        looked = await another.get(f"/api/v1/uploads/{upload}")
        assert looked.json() == again
        for number in (1, 3):
            await send(another, upload, number)
        done = await another.post(f"/api/v1/uploads/{upload}/complete")
    assert done.status_code == 201


async def test_complete_without_all_parts_lists_the_missing_ones(registry: Registry) -> None:
    async with in_parts(registry) as client:
        upload = (await opened(client)).json()["upload_id"]
        await send(client, upload, 2)
        answer = await client.post(f"/api/v1/uploads/{upload}/complete")
    assert answer.status_code == 409
    assert [finding["where"] for finding in answer.json()["findings"]] == ["part 1", "part 3"]
    assert DIGEST not in registry.store.blobs


async def test_parts_of_another_archive_are_refused_at_the_end(registry: Registry) -> None:
    async with in_parts(registry) as client:
        upload = (await opened(client)).json()["upload_id"]
        for number in (1, 2):
            await send(client, upload, number)
        await send(client, upload, 3, b"?" * len(part(3)))
        answer = await client.post(f"/api/v1/uploads/{upload}/complete")
        gone = await client.get(f"/api/v1/uploads/{upload}")
    assert answer.status_code == 422
    assert DIGEST in answer.json()["detail"]
    assert gone.status_code == 404
    assert DIGEST not in registry.store.blobs


async def test_part_that_does_not_fit_is_refused(registry: Registry) -> None:
    async with in_parts(registry) as client:
        upload = (await opened(client)).json()["upload_id"]
        url = f"/api/v1/uploads/{upload}/parts/1"
        wrong = await client.put(url, content=part(1), headers=digest_header(b"other"))
        none = await client.put(url, content=part(1))
        short = await send(client, upload, 1, part(1)[:-1])
        beyond = await send(client, upload, 4, part(3))
        state = await client.get(f"/api/v1/uploads/{upload}")
    statuses = [answer.status_code for answer in (wrong, none, short, beyond)]
    assert statuses == [422, 400, 422, 422]
    assert "Content-Digest" in none.json()["detail"]
    assert "found part 4" in beyond.json()["detail"]
    assert state.json()["received"] == []


async def test_unknown_upload_is_a_sentence(client: httpx.AsyncClient) -> None:
    upload = "00" * 16
    answers = [
        await client.get(f"/api/v1/uploads/{upload}"),
        await client.put(f"/api/v1/uploads/{upload}/parts/1", content=b"x"),
        await client.post(f"/api/v1/uploads/{upload}/complete"),
    ]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert all("open a new one" in answer.json()["detail"] for answer in answers)


async def test_archive_beyond_the_limit_is_413_at_once(registry: Registry) -> None:
    async with in_parts(registry) as client:
        answer = await opened(client, 10 * PART + 1)
    assert answer.status_code == 413
    assert f"at most {10 * PART} bytes" in answer.json()["detail"]


async def test_put_of_a_large_archive_says_to_send_it_in_parts(registry: Registry) -> None:
    async with in_parts(registry) as client:
        answer = await client.put(f"/api/v1/blobs/{DIGEST}", content=CONTENT)
    assert answer.status_code == 413
    assert "POST /api/v1/uploads" in answer.json()["detail"]


async def test_upload_that_expired_starts_anew(registry: Registry) -> None:
    async with in_parts(registry) as client:
        first = (await opened(client)).json()["upload_id"]
        await send(client, first, 1)
        registry.clock.advance(registry.settings.upload_lifetime_s)
        second = (await opened(client)).json()
    assert second["upload_id"] != first
    assert second["received"] == []


async def test_full_disk_keeps_the_parts(registry: Registry) -> None:
    async with in_parts(registry) as client:
        upload = (await opened(client)).json()["upload_id"]
        for number in (1, 2, 3):
            await send(client, upload, number)
        registry.store.capacity_bytes = len(CONTENT) + 1
        full = await client.post(f"/api/v1/uploads/{upload}/complete")
        registry.store.capacity_bytes = 10 * len(CONTENT)
        done = await client.post(f"/api/v1/uploads/{upload}/complete")
    assert (full.status_code, done.status_code) == (507, 201)

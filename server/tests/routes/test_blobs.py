import asyncio
from collections.abc import AsyncIterator

import httpx

from k3bundle.canonical import sha256_hex
from k3server_testing.registry import Registry

CONTENT = b"bytes of an archive" * 10_000
DIGEST = sha256_hex(CONTENT)
URL = f"/api/v1/blobs/{DIGEST}"


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def test_put_then_head_tells_the_size(client: httpx.AsyncClient, registry: Registry) -> None:
    assert (await client.head(URL)).status_code == 404
    answer = await client.put(URL, content=CONTENT)
    assert answer.status_code == 201
    assert answer.json() == {"sha256": DIGEST, "size_bytes": len(CONTENT)}
    head = await client.head(URL)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(CONTENT)))
    assert registry.store.blobs == {DIGEST: CONTENT}
    assert (await client.put(URL, content=CONTENT)).status_code == 200


async def test_put_other_bytes_names_both_digests(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answer = await client.put(URL, content=CONTENT + b"!")
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert DIGEST in detail
    assert sha256_hex(CONTENT + b"!") in detail
    assert registry.store.blobs == {}


async def test_put_without_length_is_411(client: httpx.AsyncClient) -> None:
    answer = await client.put(URL, content=pieces(CONTENT))
    assert answer.status_code == 411
    assert "Content-Length" in answer.json()["detail"]


async def test_put_beyond_the_limit_is_413(registry: Registry) -> None:
    registry.limit(max_archive_bytes=len(CONTENT) - 1)
    async with registry.client() as client:
        answer = await client.put(URL, content=CONTENT)
    assert answer.status_code == 413
    assert f"at most {len(CONTENT) - 1} bytes, found {len(CONTENT)}" in answer.json()["detail"]


async def test_put_empty_is_422(client: httpx.AsyncClient) -> None:
    answer = await client.put(URL, content=b"")
    assert answer.status_code == 422
    assert answer.json()["title"] == "The archive is empty"


async def test_put_fewer_or_more_bytes_than_announced_is_400(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    for announced in (len(CONTENT) + 5, len(CONTENT) - 5):
        headers = {"Content-Length": str(announced)}
        answer = await client.put(URL, content=pieces(CONTENT), headers=headers)
        assert answer.status_code == 400
        assert f"Expected {announced} bytes as announced" in answer.json()["detail"]
    assert registry.store.blobs == {}


async def test_put_on_a_full_disk_is_507_and_a_smaller_one_fits(registry: Registry) -> None:
    registry.store.capacity_bytes = len(CONTENT) - 1
    async with registry.client() as client:
        answer = await client.put(URL, content=CONTENT)
        small = b"small"
        fits = await client.put(f"/api/v1/blobs/{sha256_hex(small)}", content=small)
    assert answer.status_code == 507
    assert "nothing of it was kept" in answer.json()["detail"]
    assert fits.status_code == 201
    assert set(registry.store.blobs) == {sha256_hex(small)}


async def test_put_under_a_name_that_is_no_digest_is_a_sentence(client: httpx.AsyncClient) -> None:
    answer = await client.put("/api/v1/blobs/ABC", content=CONTENT)
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert finding["where"] == "sha256"
    assert "64 lower-case hexadecimal digits" in finding["why"]


async def test_put_that_pauses_is_408(registry: Registry) -> None:
    registry.limit(body_idle_timeout_s=0.05)
    app = registry.app()
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        if not sent:
            sent.append({})
            return {"type": "http.request", "body": CONTENT[:10], "more_body": True}
        await asyncio.sleep(30)
        raise AssertionError("nothing comes any more")

    answers: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": "PUT",
        "path": URL,
        "raw_path": URL.encode(),
        "query_string": b"",
        "headers": [(b"content-length", str(len(CONTENT)).encode())],
    }
    await app(scope, receive, send)  # type: ignore[arg-type]
    assert answers[0]["status"] == 408
    assert registry.store.blobs == {}

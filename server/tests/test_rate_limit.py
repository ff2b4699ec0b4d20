import httpx
import pytest

from k3server.allowance import Allowance, Buckets
from k3server_testing.registry import Registry


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def test_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(Allowance(per_s=2.0, burst=3.0), clock)
    assert [buckets.draw("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.draw("b") == 0
    clock.at += 0.5
    assert [buckets.draw("a"), buckets.draw("a")] == [0, 0.5]
    clock.at += 1000
    assert [buckets.draw("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_bucket_lends_once_to_what_is_larger_than_itself() -> None:
    clock = Clock()
    buckets = Buckets(Allowance(per_s=1.0, burst=10.0), clock)
    assert buckets.draw("a", 25) == 0
    assert buckets.draw("a", 1) == pytest.approx(16)
    clock.at += 16
    assert buckets.draw("a", 1) == 0


def test_forgotten_clients_do_not_fill_the_memory() -> None:
    buckets = Buckets(Allowance(per_s=1.0, burst=1.0), Clock())
    for number in range(20_100):
        buckets.draw(str(number))
    assert len(buckets._levels) == 20_000


async def test_client_that_asks_too_often_is_429_with_retry_after(registry: Registry) -> None:
    registry.limit(reads=Allowance(per_s=0.001, burst=2.0))
    async with registry.client() as client:
        answers = [await client.get("/api/v1/submissions/" + "0" * 64) for _ in range(3)]
        health = await client.get("/healthz")
    assert [answer.status_code for answer in answers] == [404, 404, 429]
    assert int(answers[2].headers["retry-after"]) > 60
    assert answers[2].headers["content-type"] == "application/problem+json"
    assert answers[2].headers["x-content-type-options"] == "nosniff"
    assert health.status_code == 200


async def test_bytes_are_counted_before_they_are_read(registry: Registry) -> None:
    registry.limit(sent_bytes=Allowance(per_s=1.0, burst=100.0))
    async with registry.client() as client:
        urls = [f"/api/v1/blobs/{number:064x}" for number in range(2)]
        answers = [await client.put(url, content=b"x" * 90) for url in urls]
    assert [answer.status_code for answer in answers] == [422, 429]


@pytest.mark.parametrize(
    ("behind_proxy", "statuses"), [(True, [404] * 3), (False, [404, 429, 429])]
)
async def test_forwarded_address_counts_only_behind_a_proxy(
    registry: Registry, behind_proxy: bool, statuses: list[int]
) -> None:
    registry.limit(reads=Allowance(per_s=0.001, burst=1.0), behind_proxy=behind_proxy)
    async with registry.client() as client:
        answers = [await ask(client, f"9.9.9.9, 10.0.0.{number}") for number in range(3)]
        again = await ask(client, "1.1.1.1, 10.0.0.0")
    assert [answer.status_code for answer in answers] == statuses
    assert again.status_code == 429


async def ask(client: httpx.AsyncClient, forwarded: str) -> httpx.Response:
    url = "/api/v1/submissions/" + "0" * 64
    return await client.get(url, headers={"X-Forwarded-For": forwarded})


async def test_made_up_tokens_do_not_make_up_clients(registry: Registry) -> None:
    registry.limit(reads=Allowance(per_s=0.001, burst=2.0))
    url = "/api/v1/submissions/" + "0" * 64
    async with registry.client() as client:
        answers = [
            await client.get(url, headers={"Authorization": f"Bearer x{number}"})
            for number in range(20)
        ]
        alone = await client.get(url)
    statuses = [answer.status_code for answer in answers]
    # Eight tokens may be busy behind one address, each with a burst of two.
    assert statuses == [404] * 16 + [429] * 4
    assert alone.status_code == 404

import asyncio
import time
from collections.abc import Awaitable, Callable

from k3bundle.plan import ServingCell
from k3bundle.request import RequestRecord
from k3runner.load.client import LoadTarget, open_session
from k3runner.load.closed_loop import CellLoad, run_cell_load
from k3runner.load.planned import plan_requests
from k3runner.prompts import Vocabulary
from k3runner_testing.serving import ServeFake

VOCABULARY = Vocabulary(first=0, size=500, special=frozenset())


def cell(concurrency: int, count: int, warmup: int = 0) -> ServingCell:
    return ServingCell(
        cell_id="serving",
        endpoint="completions",
        concurrency=concurrency,
        prompt_tokens=8,
        output_tokens=4,
        warmup_requests=warmup,
        request_count=count,
    )


async def nothing() -> None:
    return None


async def load(
    url: str,
    planned: ServingCell,
    before: Callable[[], Awaitable[None]] = nothing,
    on_record: Callable[[RequestRecord], None] = lambda _: None,
    idle_s: float = 5.0,
) -> CellLoad:
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=idle_s)
    requests = plan_requests(planned, "0" * 64, VOCABULARY)
    async with open_session() as session:
        return await run_cell_load(session, target, requests, before, on_record)


async def test_b20_concurrency_is_what_was_asked(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(ttft_s=0.05, itl_s=0.01)
    result = await load(url, cell(concurrency=4, count=12))
    assert fake.most_in_flight == 4
    starts = [record.sent_at_ns for record in result.records]
    in_flight = [
        sum(
            other.sent_at_ns <= at < other.sent_at_ns + other.ended_at_ns
            for other in result.records
        )
        for at in starts
    ]
    # A slot that is free is filled at once: only the first three starts find fewer than four.
    assert sorted(in_flight)[:4] == [1, 2, 3, 4]
    assert max(in_flight) == 4


async def test_b19_warmup_is_apart_and_outside_the_wall_time(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(first_request_extra_s=0.5)
    seen: list[int] = []

    async def before() -> None:
        seen.append(len(fake.bodies))

    result = await load(url, cell(concurrency=1, count=3, warmup=2), before)
    assert [record.variant for record in result.records] == ["warmup"] * 2 + ["measured"] * 3
    assert seen == [2]
    assert result.records[0].ended_at_ns >= 500_000_000
    assert result.wall_ns < 400_000_000


async def test_b7_blocked_client_is_recorded_as_lag(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(itl_s=0.01)
    result = await load(url, cell(concurrency=1, count=2), on_record=lambda _: time.sleep(0.3))
    assert result.max_lag_ms >= 250


async def test_b43_hang_stops_the_rest(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(fault="hang", faulty_from=2)
    began = asyncio.get_running_loop().time()
    result = await load(url, cell(concurrency=1, count=20), idle_s=0.3)
    assert result.hung
    assert len(fake.bodies) == 3
    assert asyncio.get_running_loop().time() - began < 3


async def test_b14_every_time_is_monotonic_and_not_negative(serve_fake: ServeFake) -> None:
    _, url = await serve_fake()
    result = await load(url, cell(concurrency=2, count=6))
    assert all(record.sent_at_ns >= 0 and record.ended_at_ns > 0 for record in result.records)
    assert result.wall_ns > 0

"""Whole cells through processes of the load client, against the fake server of this process."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from k3bundle.derive.metrics.concurrency import achieved_concurrency, peak_concurrency
from k3bundle.derive.metrics.send_slip import send_slip_ms
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3bundle.plan import ServingCell
from k3bundle.request import Completed, RequestRecord
from k3bundle.traffic import PoissonArrivals
from k3runner.errors import MachineError
from k3runner.load.cell_load import CellLoad, Listeners, LoadTarget, run_cell_load
from k3runner.load.planned import CellRequests, plan_requests
from k3runner.load.steady import is_steady
from k3runner.load.workers import LoadWorkers
from k3runner.prompts import Vocabulary
from k3runner_testing.serving import ServeFake

from .exchanges import MS, failure, planned

VOCABULARY = Vocabulary(first=0, size=500, special=frozenset())


def cell(concurrency: int = 1, count: int = 1, **more: Any) -> ServingCell:
    values: dict[str, Any] = {
        "cell_id": "serving",
        "endpoint": "completions",
        "concurrency": concurrency,
        "prompt_tokens": 8,
        "output_tokens": 4,
        "warmup_requests": 0,
        "request_count": count,
    }
    return ServingCell(**(values | more))


async def nothing() -> None:
    return None


async def load(
    url: str,
    what: ServingCell | CellRequests,
    *,
    before: Callable[[], Awaitable[None]] = nothing,
    on_record: Callable[[RequestRecord], None] = lambda _: None,
    on_hang: Callable[[], Awaitable[None]] = nothing,
    idle_s: float = 5.0,
) -> CellLoad:
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=idle_s)
    requests = what if isinstance(what, CellRequests) else plan_requests(what, "0" * 64, VOCABULARY)
    async with LoadWorkers() as workers:
        return await run_cell_load(workers, target, requests, Listeners(before, on_record, on_hang))


async def ask(url: str, *requests: Any, idle_s: float = 5.0) -> tuple[RequestRecord, ...]:
    result = await load(url, CellRequests((), tuple(requests), concurrency=1), idle_s=idle_s)
    return result.records


async def test_good_stream_records_tokens_and_times(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(ttft_s=0.05, itl_s=0.02, chunk_tokens=2)
    (record,) = await ask(url, planned(tokens=7))
    assert record.outcome.status == "completed"
    assert [event.tokens for event in record.events] == [1, 2, 2, 2]
    assert record.events[0].at_ns >= 50 * MS
    assert record.events[-1].at_ns >= record.events[0].at_ns + 60 * MS
    assert record.ended_at_ns >= record.events[-1].at_ns
    assert len(record.token_ids or ()) == 7
    assert fake.bodies[0]["ignore_eos"] is True


async def test_chat_stream_and_block_give_the_same_text(serve_fake: ServeFake) -> None:
    _, url = await serve_fake()
    stream, block = await ask(
        url, planned(prompt="hello", variant="stream"), planned(prompt="hello", variant="block")
    )
    assert stream.endpoint == "chat"
    assert stream.text_sha256 == block.text_sha256
    assert stream.token_ids == block.token_ids
    assert len(block.events) == 1


async def test_greedy_has_a_runner_up_at_every_position(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(chunk_tokens=3)
    (record,) = await ask(url, planned(wants_logprobs=True))
    assert record.logprobs is not None
    assert tuple(one.token_id for one in record.logprobs) == record.token_ids
    assert all((one.runner_up_logprob or 0.0) < one.logprob for one in record.logprobs)
    assert fake.bodies[0]["return_tokens_as_token_ids"] is True


async def test_b4_reasoning_tokens_are_their_own_channel(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(reasoning_tokens=2)
    (record,) = await ask(url, planned(prompt="hello", variant="stream"))
    assert [event.channel for event in record.events] == ["reasoning"] * 2 + ["content"] * 4


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("http_500", "http_status"),
        ("error_event", "error_event"),
        ("cut", "cut_stream"),
        ("no_done", "cut_stream"),
        ("no_finish", "cut_stream"),
        ("no_usage", "no_usage"),
        ("malformed", "malformed_event"),
        ("short", "wrong_length"),
    ],
)
async def test_b13_fault_is_a_failed_request(serve_fake: ServeFake, fault: str, error: str) -> None:
    _, url = await serve_fake(fault=fault)
    (record,) = await ask(url, planned())
    assert failure(record).error == error
    assert failure(record).detail


async def test_b11_short_answer_fails_with_both_lengths(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(fault="short")
    (record,) = await ask(url, planned(tokens=8))
    assert failure(record).detail == "The answer has 4 tokens, 8 were asked for."


async def test_b11_answer_that_may_end_early_completes(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(fault="short")
    (record,) = await ask(url, planned(tokens=8, exact_length=False))
    assert isinstance(record.outcome, Completed)
    assert record.outcome.completion_tokens == 4


async def test_b43_hang_is_noticed_while_requests_are_in_flight(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(fault="hang", faulty_from=2)
    in_flight: list[int] = []

    async def on_hang() -> None:
        in_flight.append(fake.in_flight)

    began = asyncio.get_running_loop().time()
    result = await load(url, cell(concurrency=2, count=20), on_hang=on_hang, idle_s=0.8)
    assert result.hung
    assert in_flight == [2]
    # Pings went on all the time: only tokens are progress.
    assert len(fake.bodies) == 4
    assert [failure(record).error for record in result.records[2:]] == ["timeout"] * 2
    assert [sum(event.tokens for event in r.events) for r in result.records[2:]] == [2, 2]
    assert asyncio.get_running_loop().time() - began < 8


async def test_b43_one_stream_that_stands_still_is_a_failed_request_and_no_hang(
    serve_fake: ServeFake,
) -> None:
    _, url = await serve_fake(fault="hang", faulty_count=1, itl_s=0.02)
    result = await load(url, cell(concurrency=2, count=14, output_tokens=6), idle_s=0.4)
    assert not result.hung
    failed = [record for record in result.records if record.outcome.status == "failed"]
    assert [failure(record).error for record in failed] == ["timeout"]
    assert len(result.records) == 14


async def test_slow_stream_that_makes_progress_is_no_hang(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(itl_s=0.2)
    (record,) = await ask(url, planned(), idle_s=0.5)
    assert record.outcome.status == "completed"
    assert record.ended_at_ns > 900 * MS


async def test_nothing_listens_is_a_connection_failure() -> None:
    (record,) = await ask("http://127.0.0.1:9", planned())
    assert failure(record).error == "connection"
    assert record.events == ()


async def test_b12_server_without_counts_per_event_is_estimated(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(token_ids=False, usage_per_chunk=False, chunk_tokens=3)
    (record,) = await ask(url, planned(tokens=7))
    assert record.counted_by == "estimate"
    assert sum(event.tokens for event in record.events) == 7


async def test_b20_concurrency_is_what_was_asked(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(ttft_s=0.05, itl_s=0.02)
    result = await load(url, cell(concurrency=4, count=16))
    assert fake.most_in_flight == 4
    assert peak_concurrency(result.records) == 4
    assert achieved_concurrency(result.records, 4) == pytest.approx(4, rel=0.05)


async def test_b19_warmup_goes_on_until_rounds_agree(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(first_request_extra_s=1.0, ttft_s=0.3)
    seen: list[int] = []

    async def before() -> None:
        seen.append(len(fake.bodies))

    planned_cell = cell(count=2, warmup_requests=1, warmup_rounds=20)
    result = await load(url, planned_cell, before=before)
    rounds = result.client.warmup.rounds_ms
    # The slow first round is no part of the agreement; with the next three there can be one.
    assert rounds[0] >= 1_000
    assert 4 <= len(rounds) < 20
    assert is_steady(rounds)
    assert not is_steady(rounds[:-1])
    assert result.client.warmup.steady is True
    assert seen == [len(rounds)]
    variants = [record.variant for record in result.records]
    assert variants == ["warmup"] * len(rounds) + ["measured"] * 2
    assert result.wall_ns < 1_200 * MS


async def test_b19_one_round_cannot_tell_whether_it_is_steady(serve_fake: ServeFake) -> None:
    _, url = await serve_fake()
    result = await load(url, cell(count=1, warmup_requests=2))
    assert result.client.warmup.steady is None
    assert len(result.client.warmup.rounds_ms) == 1


async def test_b14_every_time_is_monotonic_and_not_negative(serve_fake: ServeFake) -> None:
    _, url = await serve_fake()
    result = await load(url, cell(concurrency=2, count=6))
    assert all(record.sent_at_ns >= 0 and record.ended_at_ns > 0 for record in result.records)
    assert result.wall_ns > 0
    assert result.client.started.utc.endswith("Z")
    assert len(result.client.started.machine_boot_sha256 or "") == 64


async def test_poisson_requests_are_sent_when_they_are_due(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(ttft_s=0.2)
    traffic = PoissonArrivals(requests_per_s=50.0)
    result = await load(url, cell(concurrency=64, count=20, traffic=traffic))
    due = sorted(record.due_at_ns or 0 for record in result.records)
    # Mean distance 20 ms; answers take 200 ms, so one at a time would take ten times as long.
    assert 100 * MS < due[-1] - due[0] < 1_500 * MS
    assert fake.most_in_flight > 2
    # A request is never early; how late it may be depends on what else this machine does.
    assert all(record.sent_at_ns >= (record.due_at_ns or 0) for record in result.records)
    slip = send_slip_ms(result.records, 0.5)
    assert slip is not None
    assert slip < 50


async def test_client_records_what_it_cost(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(itl_s=0.005)
    result = await load(url, cell(concurrency=2, count=4, output_tokens=40))
    (process,) = result.client.processes
    assert process.requests == 4
    # 40 tokens, usage and end marker in each stream; some of them may have come in one read.
    assert 4 * 35 <= process.received_pieces <= 4 * 43
    assert 0 < process.cpu_ns < process.wall_ns
    assert process.lag_samples >= 3
    assert process.lag_ms_p50 <= process.lag_ms_p99 <= process.lag_ms_max
    assert result.client.recording_cpu_ns > 0


async def test_b1_fake_of_the_published_stream_has_the_published_times(
    serve_fake: ServeFake,
) -> None:
    _, url = await serve_fake(ttft_s=0.1, itl_s=0.007, chunk_tokens=6)
    (record,) = await ask(url, planned(tokens=13))
    assert [event.tokens for event in record.events] == [1, 6, 6]
    assert ttft_ms(record) == pytest.approx(100, abs=40)
    # Two gaps of at least 7 ms over 12 tokens; by chunks it would be 7 ms.
    assert 14 / 12 <= (tpot_ms(record) or 0) < 5


async def test_several_processes_share_the_streams(
    serve_fake: ServeFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3runner.load.cell_load.process_count", lambda _streams, _cpus: 2)
    fake, url = await serve_fake(ttft_s=0.05, itl_s=0.01)
    result = await load(url, cell(concurrency=5, count=20))
    assert fake.most_in_flight == 5
    assert sorted(record.index for record in result.records) == list(range(20))
    assert sum(process.requests for process in result.client.processes) == 20
    assert min(process.requests for process in result.client.processes) >= 4


async def test_process_that_dies_is_an_error_with_a_next_step(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(itl_s=0.5)
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=5)
    requests = plan_requests(cell(count=1), "0" * 64, VOCABULARY)
    listeners = Listeners(nothing, lambda _: None, nothing)
    async with LoadWorkers() as workers:
        running = asyncio.create_task(run_cell_load(workers, target, requests, listeners))
        await asyncio.sleep(0.5)
        os.kill(workers.pids[0], signal.SIGKILL)
        with pytest.raises(MachineError, match="ended with status -9"):
            await running


async def test_processes_end_with_their_runner() -> None:
    async with LoadWorkers() as workers:
        (pid,) = workers.pids
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

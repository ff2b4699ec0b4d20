import pytest

from k3bundle.request import Completed, Failed, RequestRecord
from k3runner.load.client import LoadTarget, open_session, send
from k3runner.load.planned import PlannedRequest, Variant
from k3runner_testing.serving import ServeFake


def planned(
    prompt: tuple[int, ...] | str = (1, 2, 3),
    variant: Variant = "measured",
    tokens: int = 6,
    *,
    wants_logprobs: bool = False,
) -> PlannedRequest:
    return PlannedRequest(
        cell_id="cell",
        index=0,
        variant=variant,
        prompt=prompt,
        requested_tokens=tokens,
        exact_length=True,
        wants_logprobs=wants_logprobs,
    )


def failure(record: RequestRecord) -> Failed:
    assert isinstance(record.outcome, Failed)
    return record.outcome


async def ask(url: str, request: PlannedRequest, idle_s: float = 5.0) -> RequestRecord:
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=idle_s)
    async with open_session() as session:
        record, _ = await send(session, target, request, cell_started_ns=0)
    return record


async def test_send_good_stream_records_tokens_and_times(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(ttft_s=0.05, itl_s=0.02, chunk_tokens=2)
    record = await ask(url, planned(tokens=7))
    assert record.outcome.status == "completed"
    assert [event.tokens for event in record.events] == [1, 2, 2, 2]
    assert record.events[0].at_ns >= 50_000_000
    assert record.events[-1].at_ns >= record.events[0].at_ns + 60_000_000
    assert record.ended_at_ns >= record.events[-1].at_ns
    assert len(record.token_ids or ()) == 7
    assert fake.bodies[0]["ignore_eos"] is True


async def test_send_chat_stream_and_block_give_the_same_text(serve_fake: ServeFake) -> None:
    _, url = await serve_fake()
    stream = await ask(url, planned(prompt="hello", variant="stream"))
    block = await ask(url, planned(prompt="hello", variant="block"))
    assert stream.endpoint == "chat"
    assert stream.text_sha256 == block.text_sha256
    assert stream.token_ids == block.token_ids
    assert len(block.events) == 1


async def test_send_greedy_has_a_runner_up_at_every_position(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(chunk_tokens=3)
    record = await ask(url, planned(wants_logprobs=True))
    assert record.logprobs is not None
    assert tuple(one.token_id for one in record.logprobs) == record.token_ids
    assert all((one.runner_up_logprob or 0.0) < one.logprob for one in record.logprobs)
    assert fake.bodies[0]["return_tokens_as_token_ids"] is True


async def test_b4_reasoning_tokens_are_their_own_channel(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(reasoning_tokens=2)
    record = await ask(url, planned(prompt="hello", variant="stream"))
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
    ],
)
async def test_b13_fault_is_a_failed_request(serve_fake: ServeFake, fault: str, error: str) -> None:
    _, url = await serve_fake(fault=fault)
    record = await ask(url, planned())
    assert failure(record).error == error
    assert failure(record).detail


async def test_b43_pings_without_tokens_are_a_timeout(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(fault="hang")
    record = await ask(url, planned(), idle_s=0.3)
    assert failure(record).error == "timeout"
    assert [event.tokens for event in record.events] == [1, 1]
    assert 300_000_000 <= record.ended_at_ns < 3_000_000_000


async def test_slow_stream_that_makes_progress_is_no_timeout(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(itl_s=0.15)
    record = await ask(url, planned(), idle_s=0.4)
    assert record.outcome.status == "completed"
    assert record.ended_at_ns > 600_000_000


async def test_b11_short_answer_completes_and_keeps_its_length(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(fault="short")
    record = await ask(url, planned(tokens=8))
    # The client reports what came; the verdict calls it wrong.
    assert isinstance(record.outcome, Completed)
    assert record.outcome.completion_tokens == 4
    assert record.requested_tokens == 8


async def test_nothing_listens_is_a_connection_failure() -> None:
    record = await ask("http://127.0.0.1:9", planned())
    assert failure(record).error == "connection"
    assert record.events == ()


async def test_b12_server_without_counts_per_event_is_estimated(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(token_ids=False, usage_per_chunk=False, chunk_tokens=3)
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=5)
    async with open_session() as session:
        record, estimated = await send(session, target, planned(tokens=7), cell_started_ns=0)
    assert estimated
    assert sum(event.tokens for event in record.events) == 7

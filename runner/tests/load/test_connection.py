"""HTTP as servers speak it, and as they break it."""

import asyncio
import time

import pytest

from k3bundle.request import Completed
from k3runner.load.address import parse_address
from k3runner.load.capture import Capture
from k3runner.load.connection import ConnectionPool
from k3runner_testing.transcript import HEAD, Step, TranscriptServer, chunk, event

from .exchanges import MS, exchange, failure, planned, recorded

ONE = '{"choices":[{"index":0,"text":"a","token_ids":[1],"finish_reason":null}]}'
LAST = '{"choices":[{"index":0,"text":"b","token_ids":[2],"finish_reason":"length"}]}'
USAGE = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
END = chunk(b"data: [DONE]\n\n") + chunk(b"")
GOOD = (HEAD, event(ONE), event(LAST), event(USAGE), END)


async def test_exchange_good_stream_completes_and_is_stamped_piece_by_piece() -> None:
    script: tuple[Step, ...] = (HEAD, 0.05, event(ONE), 0.05, event(LAST) + event(USAGE) + END)
    async with TranscriptServer(script) as url:
        capture = await exchange(url)
    assert (capture.status, capture.ending, capture.detail) == (200, "complete", "")
    pieces = list(capture.pieces())
    assert [piece.split(b'"')[5:6] for _, piece in pieces[:2]] == [[b"text"], [b"text"]]
    assert pieces[0][0] - capture.sent_ns >= 50 * MS
    assert pieces[1][0] - pieces[0][0] >= 49 * MS
    record = recorded(capture, planned(tokens=2))
    assert isinstance(record.outcome, Completed)
    assert record.counted_by == "token_ids"


async def test_b13_pings_cuts_inside_a_character_and_missing_blanks_lose_nothing() -> None:
    first = '{"choices":[{"text":"€","token_ids":[1],"finish_reason":null}]}'.encode()
    cut = first.index("€".encode()) + 1
    script: tuple[Step, ...] = (
        HEAD,
        chunk(b": ping\r\n\r\n"),
        chunk(b"data: " + first[:cut]),
        0.02,
        chunk(first[cut:] + b"\r\n\r\n"),
        chunk(b"data:" + LAST.encode() + b"\n\n"),
        event(USAGE),
        END,
    )
    async with TranscriptServer(script) as url:
        record = recorded(await exchange(url), planned(tokens=2))
    assert isinstance(record.outcome, Completed), record.outcome
    assert [one.tokens for one in record.events] == [1, 1]


async def test_b13_chunk_framing_cut_anywhere_gives_the_same_answer() -> None:
    whole = b"".join(GOOD)
    wanted = None
    for cut in range(len(HEAD) - 3, len(whole), 7):
        async with TranscriptServer((whole[:cut], 0.001, whole[cut:])) as url:
            found = recorded(await exchange(url), planned(tokens=2))
        answer = (found.outcome, found.token_ids, [one.tokens for one in found.events])
        wanted = wanted or answer
        assert answer == wanted, cut
        assert found.outcome.status == "completed", cut


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ((HEAD, event('{"error":{"message":"died"}}'), END), "error_event", "died"),
        ((HEAD, event(ONE), event(LAST), event(USAGE), chunk(b"")), "cut_stream", "[DONE]"),
        ((HEAD, event(ONE), "close"), "cut_stream", "closed the connection"),
        ((*GOOD[:-1], chunk(b"data: [DONE]\n\n"), "close"), "cut_stream", "did not end"),
        ((HEAD, chunk(b"data: {"), chunk(b"")), "cut_stream", "inside an event"),
        ((HEAD, chunk(b"data: \xff\n\n"), chunk(b"")), "malformed_event", "not UTF-8"),
        ((HEAD, b"no chunk\r\n"), "malformed_event", "not HTTP"),
        ((b"nonsense\r\n\r\n",), "malformed_event", "not HTTP"),
        (("close",), "connection", "closed the connection"),
        ((HEAD, event(ONE), "silence"), "timeout", "no progress"),
        (("silence",), "timeout", "no progress"),
        (
            (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nfull",),
            "http_status",
            "found 503: full",
        ),
    ],
)
async def test_b13_what_is_no_whole_stream_is_a_failed_request(
    script: tuple[Step, ...], error: str, words: str
) -> None:
    async with TranscriptServer(script) as url:
        outcome = failure(recorded(await exchange(url, limit_s=0.3), planned(tokens=2)))
    assert outcome.error == error
    assert words in outcome.detail


async def test_body_that_ends_with_the_connection_is_whole() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    body = "".join(f"data: {text}\n\n" for text in (ONE, LAST, USAGE, "[DONE]")).encode()
    async with TranscriptServer((head, body, "close")) as url:
        record = recorded(await exchange(url), planned(tokens=2))
    assert record.outcome.status == "completed"


async def test_pool_uses_a_connection_again_and_not_one_that_was_closed() -> None:
    server = TranscriptServer(GOOD)
    async with server as url:
        pool = ConnectionPool(parse_address(url))
        first = await pool.acquire()
        await first.exchange(_request(url), Capture(0, time.monotonic_ns()))
        pool.release(first)
        again = await pool.acquire()
        assert again is first
        again.close()
        pool.release(again)
        await asyncio.sleep(0)
        other = await pool.acquire()
        assert other is not first
        pool.release(other)
        pool.close()


async def test_pool_gives_up_a_connection_that_was_idle_for_long() -> None:
    async with TranscriptServer(GOOD) as url:
        pool = ConnectionPool(parse_address(url))
        first = await pool.acquire()
        await first.exchange(_request(url), Capture(0, time.monotonic_ns()))
        pool.release(first)
        first.idle_since_ns -= 2_500 * MS
        other = await pool.acquire()
        assert other is not first
        pool.release(other)
        pool.close()


async def test_pool_nobody_listens_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await ConnectionPool(parse_address("http://127.0.0.1:9")).acquire()


def _request(url: str) -> bytes:
    return f"POST / HTTP/1.1\r\nHost: {url[7:]}\r\nContent-Length: 0\r\n\r\n".encode()

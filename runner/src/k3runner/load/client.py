"""Sends one request and records what happened, by the client's monotonic clock."""

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.request import RequestRecord
from k3runner.load.answer import Answer, FailureKind
from k3runner.load.planned import PlannedRequest, request_body
from k3runner.load.sse import SseError, SseParser

__all__ = ["LoadTarget", "open_session", "send"]

_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_HTTP_OK = 200
_TEXT_LIMIT = 20_000
_KEEP_ALIVE_S = 2.0
_READ_BUFFER_BYTES = 2**20
"""A small buffer makes the client the bottleneck at long contexts."""


@dataclass(frozen=True)
class LoadTarget:
    """The server that requests go to."""

    url: str
    """Base URL without trailing slash."""
    model: str
    """Served model name."""
    boot_id: str
    """Boot that records name."""
    idle_limit_s: float
    """Longest time without a token before a request counts as timed out."""


def open_session() -> aiohttp.ClientSession:
    """A session without limits of its own; every limit is set per request.

    `trust_env` stays off: a proxy between client and engine would be measured too.
    """
    return aiohttp.ClientSession(
        # Servers close idle connections after 5 s; ours are given up before that, because a
        # request on a connection that is just being closed would count as failed.
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        read_bufsize=_READ_BUFFER_BYTES,
    )


async def send(
    session: aiohttp.ClientSession,
    target: LoadTarget,
    request: PlannedRequest,
    cell_started_ns: int,
) -> tuple[RequestRecord, bool]:
    """Sends a request and waits for its end; never raises for what a server does.

    Args:
        session: From `open_session`.
        target: Where to.
        request: What.
        cell_started_ns: `time.monotonic_ns()` at the start of the cell.

    Returns:
        The record, and whether its tokens per event had to be estimated.
    """
    answer = Answer()
    sent_ns = time.monotonic_ns()
    try:
        async with asyncio.timeout(target.idle_limit_s) as limit:
            await _exchange(session, target, request, answer=answer, sent_ns=sent_ns, limit=limit)
    except TimeoutError:
        answer.fail("timeout", f"No token came for {target.idle_limit_s:g} s.")
    except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
        answer.fail("cut_stream", f"The server closed the connection: {error!r}")
    except (aiohttp.ClientError, OSError) as error:
        kind: FailureKind = "cut_stream" if answer.arrivals else "connection"
        answer.fail(kind, f"The connection failed: {error!r}")
    ended_ns = time.monotonic_ns()
    record = RequestRecord(
        boot_id=target.boot_id,
        cell_id=request.cell_id,
        index=request.index,
        variant=request.variant,
        endpoint=request.endpoint,
        prompt_sha256=sha256_hex(canonical_json(request.messages_or_ids)),
        requested_tokens=request.requested_tokens,
        exact_length=request.exact_length,
        temperature=request.temperature,
        seed=request.seed,
        sent_at_ns=sent_ns - cell_started_ns,
        ended_at_ns=ended_ns - sent_ns,
        events=answer.events(),
        outcome=answer.outcome(None if isinstance(request.prompt, str) else len(request.prompt)),
        token_ids=answer.token_ids(),
        logprobs=answer.logprobs(),
        text=answer.text()[:_TEXT_LIMIT] if request.json_schema is not None else None,
        text_sha256=answer.text_sha256(),
    )
    return record, answer.estimated


async def _exchange(
    session: aiohttp.ClientSession,
    target: LoadTarget,
    request: PlannedRequest,
    *,
    answer: Answer,
    sent_ns: int,
    limit: asyncio.Timeout,
) -> None:
    body = request_body(request, target.model)
    async with session.post(target.url + _PATHS[request.endpoint], json=body) as response:
        if response.status != _HTTP_OK:
            text = (await response.read())[:300].decode("utf-8", "replace")
            answer.fail("http_status", f"Status 200 was due, found {response.status}: {text}")
            return
        if not request.streamed:
            content = await response.read()
            answer.take_block(time.monotonic_ns() - sent_ns, content)
            return
        await _read_stream(response, answer, sent_ns, limit, target.idle_limit_s)


async def _read_stream(
    response: aiohttp.ClientResponse,
    answer: Answer,
    sent_ns: int,
    limit: asyncio.Timeout,
    idle_limit_s: float,
) -> None:
    parser = SseParser()
    clock = asyncio.get_running_loop().time
    async for chunk in response.content.iter_any():
        at_ns = time.monotonic_ns() - sent_ns
        before = answer.arrivals
        try:
            for event in parser.feed(chunk):
                answer.take_event(at_ns, event)
        except SseError as error:
            answer.fail("malformed_event", str(error))
        if answer.failed:
            return
        # Only tokens are progress: a hung engine may still send pings.
        if answer.arrivals > before:
            limit.reschedule(clock() + idle_limit_s)
    if not parser.finish():
        answer.fail("cut_stream", "The stream ended inside an event.")

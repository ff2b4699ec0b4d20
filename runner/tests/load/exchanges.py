"""Sends one request through a connection of this process and reads what came."""

import asyncio
import time

from k3bundle.request import Failed, RequestRecord
from k3runner.load.address import parse_address, request_bytes
from k3runner.load.capture import Capture
from k3runner.load.connection import ConnectionPool
from k3runner.load.planned import PlannedRequest, Variant
from k3runner.load.recording import record_of

MS = 1_000_000


def planned(
    prompt: tuple[int, ...] | str = (1, 2, 3),
    variant: Variant = "measured",
    tokens: int = 6,
    *,
    exact_length: bool = True,
    wants_logprobs: bool = False,
) -> PlannedRequest:
    return PlannedRequest(
        cell_id="cell",
        index=0,
        variant=variant,
        prompt=prompt,
        requested_tokens=tokens,
        exact_length=exact_length,
        wants_logprobs=wants_logprobs,
    )


async def exchange(url: str, limit_s: float = 5.0) -> Capture:
    """One request with an empty body; ends as timed out after `limit_s`."""
    address = parse_address(url)
    pool = ConnectionPool(address)
    capture = Capture(0, time.monotonic_ns())
    connection = await pool.acquire()
    asyncio.get_running_loop().call_later(limit_s, connection.end, "timeout", "the test's limit")
    await connection.exchange(request_bytes(address, "/v1/completions", b"{}"), capture)
    pool.release(connection)
    pool.close()
    return capture


def recorded(capture: Capture, request: PlannedRequest) -> RequestRecord:
    return record_of(request, capture, boot_id="boot-0.0", cell_started_ns=capture.sent_ns).record


def failure(record: RequestRecord) -> Failed:
    assert isinstance(record.outcome, Failed)
    return record.outcome

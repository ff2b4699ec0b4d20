"""The client keeps up with a fast server beside it: the small form of `make client-cost`."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from k3bundle.plan import ServingCell
from k3runner.load.cell_load import CellLoad, Listeners, LoadTarget, run_cell_load
from k3runner.load.planned import plan_requests
from k3runner.load.workers import LoadWorkers
from k3runner.prompts import Vocabulary
from k3runner_testing.fast_server import prepared_events

STREAMS = 64
TOKENS = 50
_PARSES = 5_000


@contextmanager
def fast_server(tick_ms: float) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "k3runner_testing.fast_server", "--tick-ms", str(tick_ms)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.communicate(timeout=10)


async def nothing() -> None:
    return None


async def load(url: str) -> CellLoad:
    cell = ServingCell(
        cell_id="cost",
        endpoint="completions",
        concurrency=STREAMS,
        prompt_tokens=16,
        output_tokens=TOKENS,
        warmup_requests=0,
        request_count=2 * STREAMS,
    )
    target = LoadTarget(url=url, model="k3-tiny", boot_id="boot-0.0", idle_limit_s=20)
    requests = plan_requests(cell, "0" * 64, Vocabulary(0, 900, frozenset()))
    async with LoadWorkers() as workers:
        return await run_cell_load(
            workers, target, requests, Listeners(nothing, lambda _: None, nothing)
        )


async def test_64_streams_of_one_token_events_are_received_whole_and_cheaply() -> None:
    with fast_server(tick_ms=10.0) as url:
        result = await load(url)
    assert {record.outcome.status for record in result.records} == {"completed"}
    assert {len(record.events) for record in result.records} == {TOKENS}
    (process,) = result.client.processes
    events = 2 * STREAMS * TOKENS
    assert process.received_bytes > 250 * events
    # CPU time per event in units of what parsing one event as JSON takes here and now, so that a
    # slow or busy machine changes both. About 3 were measured.
    cost = (process.cpu_ns + result.client.recording_cpu_ns) / events / _parse_ns()
    assert 1 < cost < 15


def _parse_ns() -> float:
    text = prepared_events(TOKENS, 16, ids=True, usage=True)[0].split(b"data: ")[1].split(b"\n")[0]
    began_ns = time.process_time_ns()
    for _ in range(_PARSES):
        json.loads(text)
    return (time.process_time_ns() - began_ns) / _PARSES

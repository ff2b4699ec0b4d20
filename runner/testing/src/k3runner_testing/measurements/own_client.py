"""Sends a workload with our client and keeps what came, for the measurements."""

import asyncio
import json
import os
import re
import time
from dataclasses import dataclass

from k3bundle.request import RequestRecord
from k3runner.load.address import parse_address
from k3runner.load.capture import Capture
from k3runner.load.cell_load import CellLoad, Listeners, LoadTarget, run_cell_load
from k3runner.load.recording import record_of
from k3runner.load.shots import shots_of
from k3runner.load.workers import LoadWorkers
from k3runner_testing.measurements.workload import MODEL, Workload

__all__ = ["OwnRun", "ServedRequest", "run_own_client", "run_with_server_metrics"]

_IDLE_LIMIT_S = 120.0
_METRICS = re.compile(rb'"metrics":(\{[^{}]*\})')


@dataclass(frozen=True)
class OwnRun:
    """What our client saw, and what it cost."""

    load: CellLoad
    """Records and the client's own statistics."""
    cpu_ns: int
    """CPU time of everything: the sending processes, and this one from start to records."""


@dataclass(frozen=True)
class ServedRequest:
    """One request as the client saw it and as the server did."""

    record: RequestRecord
    """The client."""
    server: dict[str, float]
    """The server's own metrics of that request, in milliseconds."""


def run_own_client(url: str, workload: Workload, *, real_time: bool = False) -> OwnRun:
    """Runs a workload.

    Args:
        url: Base URL of the server.
        workload: What to send.
        real_time: Whether the sending process gets a real-time priority, on a busy machine.
    """
    return asyncio.run(_run(url, workload, real_time=real_time))


def run_with_server_metrics(url: str, workload: Workload) -> list[ServedRequest]:
    """Runs a workload against a server that was started with `--enable-per-request-metrics`."""
    return asyncio.run(_run_captures(url, workload))


async def _run(url: str, workload: Workload, *, real_time: bool) -> OwnRun:
    target = LoadTarget(url=url, model=MODEL, boot_id="boot-0.0", idle_limit_s=_IDLE_LIMIT_S)
    requests = workload.planned()
    listeners = Listeners(_nothing, _ignore, _nothing)
    async with LoadWorkers() as workers:
        for pid in workers.pids if real_time else ():
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        cpu_ns = time.process_time_ns()
        load = await run_cell_load(workers, target, requests, listeners)
        used_ns = time.process_time_ns() - cpu_ns
    return OwnRun(load, used_ns + sum(process.cpu_ns for process in load.client.processes))


async def _run_captures(url: str, workload: Workload) -> list[ServedRequest]:
    address = parse_address(url)
    requests = workload.planned().measured
    captures: list[Capture] = []
    async with LoadWorkers() as workers:
        result = await workers.run(
            address,
            shots_of(requests, address, MODEL),
            streams=workload.concurrency,
            processes=1,
            idle_limit_s=_IDLE_LIMIT_S,
            on_capture=captures.append,
            on_hang=_nothing,
        )
    return [
        ServedRequest(
            record_of(
                requests[capture.number],
                capture,
                boot_id="boot-0.0",
                cell_started_ns=result.started_ns,
            ).record,
            _server_metrics(bytes(capture.content)),
        )
        for capture in captures
    ]


def _server_metrics(content: bytes) -> dict[str, float]:
    found = _METRICS.findall(content)
    if not found:
        return {}
    return {
        name: value
        for name, value in json.loads(found[-1]).items()
        if isinstance(value, int | float)
    }


async def _nothing() -> None:
    return None


def _ignore(_record: RequestRecord) -> None:
    return None

"""Whether the load client measured the engine, or itself.

    CPU share   = CPU time / wall time, of the busiest process over the measured part
    lag         = 99th percentile of the delay of its event loop, of the process with the largest
    concurrency = achieved_concurrency / planned

A client that has no time left, or does not keep the planned load up, shows the engine slower or
gentler than it is, and not in the same way in both arms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from k3bundle.client import ClientStats
from k3bundle.derive.metrics.concurrency import achieved_concurrency
from k3bundle.derive.metrics.send_slip import send_slip_ms
from k3bundle.derive.problem import Problem
from k3bundle.derive.sentences import milliseconds, percent, plain
from k3bundle.gates import Gates
from k3bundle.plan import ServingCell
from k3bundle.request import RequestRecord

__all__ = ["ClientReading", "client_problem", "read_client"]

_P99 = 0.99


@dataclass(frozen=True)
class ClientReading:
    """The load client in one boot."""

    cpu_share: float
    """Share of one core that the busiest process used."""
    lag_ms_p99: float
    """Largest 99th percentile of the lag over the processes."""
    lag_ms_max: float
    """Largest lag."""
    achieved_concurrency: float | None
    """Mean number of requests in flight while there was something to send; None without one."""
    send_slip_ms_p99: float | None
    """99th percentile of how late requests with a schedule were sent; None without a schedule."""
    estimated_requests: int
    """Requests whose tokens per event are estimates."""
    steady: bool | None
    """Whether warm-up ended steady; None when the plan asks for too few rounds to tell."""
    silent: bool = False
    """Whether the client recorded nothing of itself, so that nothing above is known."""


def read_client(
    client: ClientStats | None, measured: Sequence[RequestRecord], concurrency: int
) -> ClientReading:
    """Read what a client recorded of itself and what its requests say about it.

    Args:
        client: From the line that says that the cell finished; None: it says nothing.
        measured: The measured requests of that boot.
        concurrency: Planned requests in flight.
    """
    if client is None:
        return ClientReading(0.0, 0.0, 0.0, None, None, 0, None, silent=True)
    return ClientReading(
        cpu_share=max((p.cpu_ns / p.wall_ns for p in client.processes if p.wall_ns), default=0.0),
        lag_ms_p99=max(process.lag_ms_p99 for process in client.processes),
        lag_ms_max=max(process.lag_ms_max for process in client.processes),
        achieved_concurrency=achieved_concurrency(measured, concurrency),
        send_slip_ms_p99=send_slip_ms(measured, _P99),
        estimated_requests=sum(request.counted_by == "estimate" for request in measured),
        steady=client.warmup.steady,
    )


def client_problem(reading: ClientReading, cell: ServingCell, gates: Gates) -> Problem | None:
    """Say why the numbers of a serving cell are the client's and not the engine's.

    Args:
        reading: From `read_client`.
        cell: The planned cell.
        gates: Thresholds; one that is None is not judged.

    Returns:
        The first problem, its sentence without a full stop; None when there is none.
    """
    if reading.silent:
        return Problem("client_bound", "the load client recorded nothing of itself")
    late = _late(reading, gates)
    if late is not None:
        return Problem("client_bound", late)
    shortfall, achieved = gates.maximum_concurrency_shortfall, reading.achieved_concurrency
    if shortfall is not None and cell.traffic.kind == "closed_loop" and achieved is not None:
        planned = min(cell.concurrency, cell.request_count)
        if abs(achieved - planned) > shortfall * planned:
            return Problem(
                "concurrency_not_reached",
                f"{plain(achieved)} requests were in flight on average where {planned} were "
                f"planned; a difference of {percent(shortfall)} is allowed",
            )
    if gates.claims_speed and reading.steady is False:
        return Problem("not_steady", "the warm-up ended before its rounds took equally long")
    return None


def _late(reading: ClientReading, gates: Gates) -> str | None:
    lag, share = gates.maximum_client_lag_ms, gates.maximum_client_cpu_share
    if lag is not None and reading.lag_ms_p99 > lag:
        return (
            f"the event loop of the load client was {milliseconds(reading.lag_ms_p99)} late "
            f"(p99); at most {milliseconds(lag)} are allowed"
        )
    slip = reading.send_slip_ms_p99
    if lag is not None and slip is not None and slip > lag:
        return (
            f"requests were sent {milliseconds(slip)} after they were due (p99); at most "
            f"{milliseconds(lag)} are allowed"
        )
    if share is not None and reading.cpu_share > share:
        return (
            f"the load client used {percent(reading.cpu_share)} of a core; at most "
            f"{percent(share)} are allowed"
        )
    return None

"""Goodput: answers per second that meet the service objective.

    goodput = completed requests within all limits / wall time of the cell

A failed request is not good. A time that is undefined meets no limit: an answer that came in one
piece has no TPOT, so it is not good where TPOT is limited.
"""

from collections.abc import Callable, Sequence
from typing import Final

from k3bundle.derive.metrics.throughput import wall_ns
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3bundle.plan import ServiceObjective
from k3bundle.request import RequestRecord

__all__ = ["goodput_per_s", "is_good"]

_NS_PER_S: Final = 1_000_000_000


def is_good(request: RequestRecord, objective: ServiceObjective) -> bool:
    """Whether one request completed within every limit of the objective."""
    limits: tuple[tuple[Callable[[RequestRecord], float | None], float | None], ...] = (
        (ttft_ms, objective.ttft_ms),
        (tpot_ms, objective.tpot_ms),
    )
    if request.outcome.status != "completed":
        return False
    for measure, limit in limits:
        if limit is None:
            continue
        time = measure(request)
        if time is None or time > limit:
            return False
    return True


def goodput_per_s(requests: Sequence[RequestRecord], objective: ServiceObjective) -> float | None:
    """Good answers per second over the measured requests of one cell in one boot.

    Returns:
        The rate; None when no request completed or no time passed.
    """
    if not any(request.outcome.status == "completed" for request in requests):
        return None
    span_ns = wall_ns(requests)
    if span_ns <= 0:
        return None
    return sum(is_good(request, objective) for request in requests) * _NS_PER_S / span_ns

"""What one user sees: tokens per second of a stream, and the interactivity that nine of ten get.

    tokens/s/user   = 1 / TPOT, per request; a cell's is the median over its requests
    P90 interactivity = 1 / P90(ITL), not the 90th percentile of 1 / ITL

A request whose TPOT is undefined has no rate: a 0 in the denominator would read as infinitely fast.
"""

from collections.abc import Sequence
from typing import Final

from k3bundle.derive.metrics.itl import itl_percentile_ms
from k3bundle.derive.metrics.percentile import percentile
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.request import RequestRecord

__all__ = ["p90_interactivity", "tokens_per_s_per_user"]

_MS_PER_S: Final = 1_000
_P90: Final = 0.9


def tokens_per_s_per_user(requests: Sequence[RequestRecord]) -> float | None:
    """Median rate of one stream over the measured requests of a cell, in tokens/s.

    Returns:
        The rate; None where no request has a TPOT.
    """
    times = [time for time in (tpot_ms(request) for request in requests) if time is not None]
    return percentile((_MS_PER_S / time for time in times), 0.5)


def p90_interactivity(requests: Sequence[RequestRecord]) -> float | None:
    """Rate that nine of ten tokens reach or exceed, in tokens/s for one user.

    Returns:
        The rate; None where the inter-token latency has no percentiles, or is 0.
    """
    latency = itl_percentile_ms(requests, _P90)
    return _MS_PER_S / latency if latency else None

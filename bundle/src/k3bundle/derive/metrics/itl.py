"""Inter-token latency.

    an event of k tokens that comes g after the event before it: k latencies of g / k

An event is not a token: with speculation one event carries several, and g alone would say that the
user waits longer than he does. Tokens of the first event have no token before them.

A stream that was held back and then released in a burst has gaps near 0 between its events. Those
say how the server or the network flushed, not how fast tokens were made, so where too many gaps
are that short the percentiles of the cell are withheld; TPOT, which needs the ends only, stays.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from k3bundle.derive.metrics.percentile import weighted_percentile
from k3bundle.request import RequestRecord

__all__ = ["MAXIMUM_BURST_SHARE", "burst_share", "itl_ms", "itl_percentile_ms"]

MAXIMUM_BURST_SHARE: Final = 0.2
"""Largest share of gaps under 0.2 ms with which percentiles are still given."""
_BURST_GAP_NS: Final = 200_000
_NS_PER_MS: Final = 1_000_000


def itl_ms(request: RequestRecord) -> tuple[tuple[float, int], ...]:
    """Inter-token latencies of one request.

    Returns:
        (latency in milliseconds, how many tokens had it), in order; empty for a failed request.
    """
    return tuple((gap / tokens / _NS_PER_MS, tokens) for gap, tokens in _gaps(request))


def burst_share(requests: Iterable[RequestRecord]) -> float | None:
    """Share of the gaps between token-carrying events that are shorter than 0.2 ms.

    Returns:
        The share; None where no completed request has two such events.
    """
    short = total = 0
    for request in requests:
        for gap, _ in _gaps(request):
            total += 1
            short += gap < _BURST_GAP_NS
    return short / total if total else None


def itl_percentile_ms(requests: Sequence[RequestRecord], share: float) -> float | None:
    """A percentile of the inter-token latency over all tokens of a cell, in milliseconds.

    Args:
        requests: The measured requests of one cell in one boot.
        share: Between 0 and 1.

    Returns:
        The percentile; None without a gap, or where the streams came in bursts.
    """
    bursts = burst_share(requests)
    if bursts is None or bursts > MAXIMUM_BURST_SHARE:
        return None
    return weighted_percentile((pair for r in requests for pair in itl_ms(r)), share)


def _gaps(request: RequestRecord) -> Iterator[tuple[int, int]]:
    """(gap in nanoseconds, tokens of the event that ends it)."""
    if request.outcome.status != "completed":
        return
    before: int | None = None
    for event in request.events:
        if event.tokens > 0:
            if before is not None:
                # Events that go back are refused elsewhere; here they must not pay for others.
                yield max(0, event.at_ns - before), event.tokens
            before = event.at_ns

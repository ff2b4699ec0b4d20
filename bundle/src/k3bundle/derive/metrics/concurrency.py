"""How many requests were in flight, read from the requests themselves.

    achieved = time in flight between two moments, summed over requests / time between them

The two moments are when the last of the first `asked` requests was sent and when the very last one
was sent. Before, the client is still filling up; after, there is nothing left to fill up with.
When nothing was sent in between, the number in flight at that moment counts.
"""

from collections.abc import Sequence

from k3bundle.request import RequestRecord

__all__ = ["achieved_concurrency", "peak_concurrency"]


def achieved_concurrency(requests: Sequence[RequestRecord], asked: int) -> float | None:
    """Mean number of requests in flight.

    Args:
        requests: The measured requests of one cell in one boot, failed ones included.
        asked: Requests that were to be in flight.

    Returns:
        The mean; None without requests.
    """
    if not requests:
        return None
    sent = sorted(request.sent_at_ns for request in requests)
    begin, end = sent[min(asked, len(sent)) - 1], sent[-1]
    if end == begin:
        return float(sum(r.sent_at_ns <= end < r.sent_at_ns + r.ended_at_ns for r in requests))
    inside = (
        min(end, request.sent_at_ns + request.ended_at_ns) - max(begin, request.sent_at_ns)
        for request in requests
    )
    return sum(max(0, span) for span in inside) / (end - begin)


def peak_concurrency(requests: Sequence[RequestRecord]) -> int:
    """Largest number of requests that were in flight at one moment."""
    # At equal times an end comes first: a request that ends when another starts makes room for it.
    steps = sorted(
        step
        for request in requests
        for step in (
            (request.sent_at_ns, 1),
            (request.sent_at_ns + request.ended_at_ns, -1),
        )
    )
    peak = now = 0
    for _, change in steps:
        now += change
        peak = max(peak, now)
    return peak

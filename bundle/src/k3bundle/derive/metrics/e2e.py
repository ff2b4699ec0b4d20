"""End-to-end latency.

    E2E = time of the last token-carrying event - time the request was sent

The end marker comes after the last token and is no part of what a user waits for.
"""

from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["e2e_ms"]

_NS_PER_MS: Final = 1_000_000


def e2e_ms(request: RequestRecord) -> float | None:
    """End-to-end latency of one request, in milliseconds.

    Returns:
        The time; None when the request failed or no event carried a token.
    """
    if request.outcome.status != "completed":
        return None
    times = [event.at_ns for event in request.events if event.tokens > 0]
    return times[-1] / _NS_PER_MS if times else None

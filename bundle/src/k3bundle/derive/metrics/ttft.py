"""Time to first token.

    TTFT = time of the first token-carrying event - time the request was sent

Reasoning and content both open the answer: a model that thinks first has begun to answer.
"""

from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["ttft_ms"]

_NS_PER_MS: Final = 1_000_000


def ttft_ms(request: RequestRecord) -> float | None:
    """Time to first token of one request, in milliseconds.

    Returns:
        The time; None when the request failed or no event carried a token.
    """
    if request.outcome.status != "completed":
        return None
    first = next((event for event in request.events if event.tokens > 0), None)
    return None if first is None else first.at_ns / _NS_PER_MS

"""Time per output token after the first event.

    TPOT = (t_last - t_first) / (n - tokens in the first event)

t_first and t_last are the first and last token-carrying events, n is the completion tokens by
server usage. An event of k tokens is k tokens: with speculation, events are not tokens. When all
tokens came in one event, or in events that the client saw at one moment, TPOT is undefined; a 0
would read as infinitely fast.
"""

from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["tpot_ms"]

_NS_PER_MS: Final = 1_000_000


def tpot_ms(request: RequestRecord) -> float | None:
    """Time per output token of one request, in milliseconds.

    Returns:
        The time; None when the request failed or the time is undefined.
    """
    if request.outcome.status != "completed":
        return None
    carrying = [event for event in request.events if event.tokens > 0]
    if not carrying:
        return None
    first, last = carrying[0], carrying[-1]
    later_tokens = request.outcome.completion_tokens - first.tokens
    elapsed_ns = last.at_ns - first.at_ns
    if later_tokens <= 0 or elapsed_ns <= 0:
        return None
    return elapsed_ns / later_tokens / _NS_PER_MS

"""Time to the first token of the answer itself.

    first answer = time of the first content-carrying event - time the request was sent

A model that thinks first opens its answer with reasoning; TTFT counts that, this does not.
"""

from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["first_answer_ms"]

_NS_PER_MS: Final = 1_000_000


def first_answer_ms(request: RequestRecord) -> float | None:
    """Time to the first content token of one request, in milliseconds.

    Returns:
        The time; None when the request failed or only reasoned.
    """
    if request.outcome.status != "completed":
        return None
    content = (e for e in request.events if e.tokens > 0 and e.channel == "content")
    first = next(content, None)
    return None if first is None else first.at_ns / _NS_PER_MS

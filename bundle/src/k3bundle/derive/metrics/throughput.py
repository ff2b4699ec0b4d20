"""Output throughput of one cell in one boot.

    output tokens/s = completion tokens of completed requests / wall time

Wall time runs from the first measured request sent to the last one ended, read from the requests
themselves. Failed requests give no tokens and still take time.
"""

from collections.abc import Sequence
from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["output_tokens_per_s"]

_NS_PER_S: Final = 1_000_000_000


def output_tokens_per_s(requests: Sequence[RequestRecord]) -> float | None:
    """Output throughput over the measured requests of one cell in one boot, in tokens/s.

    Args:
        requests: The measured requests, without warm-up.

    Returns:
        The rate; None when no request completed or no time passed.
    """
    completed = [r.outcome for r in requests if r.outcome.status == "completed"]
    if not completed:
        return None
    begin_ns = min(request.sent_at_ns for request in requests)
    end_ns = max(request.sent_at_ns + request.ended_at_ns for request in requests)
    if end_ns <= begin_ns:
        return None
    return sum(outcome.completion_tokens for outcome in completed) * _NS_PER_S / (end_ns - begin_ns)

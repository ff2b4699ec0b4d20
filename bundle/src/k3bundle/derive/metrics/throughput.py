"""Output throughput of one cell in one boot.

    output tokens/s = completion tokens of completed requests / wall time

Wall time runs from the first measured request sent to the last one ended, read from the requests
themselves. Failed requests give no tokens and still take time.
"""

from collections.abc import Sequence
from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["output_tokens_per_s", "wall_ns"]

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
    span_ns = wall_ns(requests)
    if span_ns <= 0:
        return None
    return sum(outcome.completion_tokens for outcome in completed) * _NS_PER_S / span_ns


def wall_ns(requests: Sequence[RequestRecord]) -> int:
    """Time from the first request sent to the last one ended, in nanoseconds; 0 without one."""
    begin_ns = min((request.sent_at_ns for request in requests), default=0)
    end_ns = max((request.sent_at_ns + request.ended_at_ns for request in requests), default=0)
    return end_ns - begin_ns

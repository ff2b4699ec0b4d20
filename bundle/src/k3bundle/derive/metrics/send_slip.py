"""How much later than scheduled requests were sent.

    slip = time the request was sent - time it was due

Only requests with a schedule have one. A client that slips measures a gentler load than planned.
"""

from collections.abc import Iterable
from typing import Final

from k3bundle.derive.metrics.percentile import percentile
from k3bundle.request import RequestRecord

__all__ = ["send_slip_ms"]

_NS_PER_MS: Final = 1_000_000


def send_slip_ms(requests: Iterable[RequestRecord], share: float) -> float | None:
    """A percentile of the slip over the requests of a cell, in milliseconds.

    Args:
        requests: The measured requests.
        share: Between 0 and 1.

    Returns:
        The percentile; None where no request had a schedule.
    """
    slips = (r.sent_at_ns - r.due_at_ns for r in requests if r.due_at_ns is not None)
    found = percentile(slips, share)
    return None if found is None else found / _NS_PER_MS

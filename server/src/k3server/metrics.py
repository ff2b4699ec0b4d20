"""Counts and times for Prometheus, in its text format; kept in memory."""

import threading
import time
from collections import defaultdict
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Metrics", "RequestMetrics"]

_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


class Metrics:
    """What a registry counted since it started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS_S) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def request(self, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        name = method if method in _METHODS else "other"
        with self._lock:
            self._requests[name, status] += 1
            place = sum(seconds > bound for bound in _BOUNDS_S)
            self._buckets[name][place] += 1
            self._seconds[name] += seconds

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """Everything in the text format.

        Args:
            gauges: Name -> what it is, and its value now.
        """
        lines = [
            "# HELP k3_registry_requests_total Requests by method and status.",
            "# TYPE k3_registry_requests_total counter",
        ]
        with self._lock:
            for (method, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",status="{status}"'
                lines.append(f"k3_registry_requests_total{{{labels}}} {count}")
            lines += [
                "# HELP k3_registry_request_seconds Time from a request's headers to its answer.",
                "# TYPE k3_registry_request_seconds histogram",
            ]
            for method, counts in sorted(self._buckets.items()):
                lines += _histogram(method, counts, self._seconds[method])
        for name, (what, value) in gauges.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _histogram(method: str, counts: list[int], seconds: float) -> list[str]:
    lines, total = [], 0
    for bound, count in zip((*_BOUNDS_S, float("inf")), counts, strict=True):
        total += count
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        labels = f'method="{method}",le="{edge}"'
        lines.append(f"k3_registry_request_seconds_bucket{{{labels}}} {total}")
    lines.append(f'k3_registry_request_seconds_sum{{method="{method}"}} {seconds:.6f}')
    lines.append(f'k3_registry_request_seconds_count{{method="{method}"}} {total}')
    return lines


class RequestMetrics:
    """ASGI middleware that counts every request."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        # What it was when no answer was given: the client was gone.
        status = 499

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._metrics.request(scope["method"], status, time.monotonic() - started)

"""Limits per client: requests, and bytes that are sent; see `allowance` for the buckets.

Buckets are kept in memory, so each process of a registry has its own and a restart fills them. A
client is its API token where it sends one, else its address; behind a proxy the address is believed
from `X-Forwarded-For` only when the operator says so. What an address sends with tokens draws from
a wider bucket of the address, too: making up tokens must not make up clients.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from k3server.allowance import Allowance, Client, SharedBuckets
from k3server.errors import Problem
from k3server.problem_json import problem_json

__all__ = ["RateLimits"]

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FREE: Final = frozenset({"/healthz", "/readyz"})
"""Asked by the operator's own machinery, and cheap."""


class RateLimits:
    """ASGI middleware that answers 429 with Retry-After to a client whose bucket is empty."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        reads: Allowance,
        writes: Allowance,
        sent_bytes: Allowance,
        behind_proxy: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._reads = SharedBuckets(reads, now)
        self._writes = SharedBuckets(writes, now)
        self._bytes = SharedBuckets(sent_bytes, now)
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client = Client(self._address(scope, headers), headers.get("authorization"))
        if scope["method"] in _READS:
            wait_s = self._reads.draw(client)
        else:
            wait_s = self._writes.draw(client)
            length = headers.get("content-length", "")
            if wait_s == 0 and length.isascii() and length.isdigit():
                # Two digits more than any body that is taken, so that no number is too long.
                wait_s = self._bytes.draw(client, float(length[:18]))
        if wait_s == 0:
            await self._app(scope, receive, send)
            return
        await problem_json(_too_many(wait_s))(scope, receive, send)

    def _address(self, scope: Scope, headers: Headers) -> str:
        if self._behind_proxy:
            # The proxy appends the address that it saw; what stands before it anyone can write.
            forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
            if forwarded:
                return forwarded[:64]
        client = scope.get("client")
        return str(client[0]) if client else "unknown"


def _too_many(wait_s: float) -> Problem:
    seconds = math.ceil(wait_s)
    return Problem(
        429,
        "Too many requests",
        f"Expected fewer requests or bytes from one client, found more than the registry takes. "
        f"Nothing was changed; send it again in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )

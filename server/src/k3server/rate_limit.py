"""Limits per client: requests, and bytes that are sent. A bucket fills steadily and is drawn from.

Buckets are kept in memory, so each process of a registry has its own and a restart fills them. A
client is its API token where it sends one, else its address; behind a proxy the address is believed
from `X-Forwarded-For` only when the operator says so. What an address sends with tokens draws from
a wider bucket of the address, too: making up tokens must not make up clients.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from k3server.errors import Problem
from k3server.problem_json import problem_json

__all__ = ["Allowance", "Buckets", "RateLimits"]

_MOST_CLIENTS: Final = 20_000
_TOKENS_PER_ADDRESS: Final = 8
"""Busy tokens that may share an address, as behind the gateway of a laboratory."""
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FREE: Final = frozenset({"/healthz", "/readyz"})
"""Asked by the operator's own machinery, and cheap."""


@dataclass(frozen=True)
class Allowance:
    """How fast a bucket fills, and how much it holds."""

    per_s: float
    """Units per second."""
    burst: float
    """Units that a full bucket holds."""


class Buckets:
    """A bucket per client; the clients that were not seen longest are forgotten."""

    def __init__(self, allowance: Allowance, now: Callable[[], float] = time.monotonic) -> None:
        self._allowance = allowance
        self._now = now
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def draw(self, client: str, amount: float = 1.0) -> float:
        """Take from the bucket of a client.

        Returns:
            0 when there was enough; else the seconds until there will be, and nothing is taken.
            More than a bucket holds is taken from a full one, which is then empty for longer.
        """
        now = self._now()
        level, seen = self._levels.pop(client, (self._allowance.burst, now))
        level = min(self._allowance.burst, level + (now - seen) * self._allowance.per_s)
        needed = min(amount, self._allowance.burst)
        enough = level >= needed
        self._levels[client] = (level - amount if enough else level, now)
        if len(self._levels) > _MOST_CLIENTS:
            self._levels.popitem(last=False)
        return 0.0 if enough else (needed - level) / self._allowance.per_s


@dataclass(frozen=True)
class _Client:
    """Who a request comes from."""

    address: str
    authorization: str | None


class _Shared:
    """A bucket for each client, and a wider one for all tokens of an address."""

    def __init__(self, allowance: Allowance, now: Callable[[], float]) -> None:
        wide = Allowance(
            allowance.per_s * _TOKENS_PER_ADDRESS, allowance.burst * _TOKENS_PER_ADDRESS
        )
        self._clients = Buckets(allowance, now)
        self._addresses = Buckets(wide, now)

    def draw(self, client: _Client, amount: float = 1.0) -> float:
        """As `Buckets.draw`; a token that exists or not draws from both."""
        if client.authorization is None:
            return self._clients.draw(client.address, amount)
        wait_s = self._addresses.draw(client.address, amount)
        if wait_s:
            return wait_s
        digest = hashlib.sha256(client.authorization.encode("utf-8", "replace")).hexdigest()
        return self._clients.draw(f"token:{digest}:{client.address}", amount)


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
        self._reads = _Shared(reads, now)
        self._writes = _Shared(writes, now)
        self._bytes = _Shared(sent_bytes, now)
        self._behind_proxy = behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] in _FREE:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client = _Client(self._address(scope, headers), headers.get("authorization"))
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

"""A bucket per client, which fills steadily and is drawn from."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Allowance", "Buckets", "Client", "SharedBuckets"]

_MOST_CLIENTS: Final = 20_000
_TOKENS_PER_ADDRESS: Final = 8
"""Busy tokens that may share an address, as behind the gateway of a laboratory."""


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
class Client:
    """Who a request comes from."""

    address: str
    """Its address."""
    authorization: str | None
    """The header that carries its token; None without one."""


class SharedBuckets:
    """A bucket for each client, and a wider one for all tokens of an address."""

    def __init__(self, allowance: Allowance, now: Callable[[], float]) -> None:
        wide = Allowance(
            allowance.per_s * _TOKENS_PER_ADDRESS, allowance.burst * _TOKENS_PER_ADDRESS
        )
        self._clients = Buckets(allowance, now)
        self._addresses = Buckets(wide, now)

    def draw(self, client: Client, amount: float = 1.0) -> float:
        """As `Buckets.draw`; a token that exists or not draws from both."""
        if client.authorization is None:
            return self._clients.draw(client.address, amount)
        wait_s = self._addresses.draw(client.address, amount)
        if wait_s:
            return wait_s
        digest = hashlib.sha256(client.authorization.encode("utf-8", "replace")).hexdigest()
        return self._clients.draw(f"token:{digest}:{client.address}", amount)

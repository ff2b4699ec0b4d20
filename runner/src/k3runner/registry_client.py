"""One conversation with one registry: requests that are tried again, and who sends them.

Every request of ours may be repeated without harm, so a lost answer or a restart of the registry
only costs time.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp

from k3runner.errors import RegistryError, UsageError
from k3runner.registry_answer import detail_of
from k3runner.visible import one_line

__all__ = ["TAKE", "Answer", "Patience", "RegistryClient", "TryAgainError", "registry_client"]

T = TypeVar("T")

TAKE: Final = "take the bundle"
"""What a registry is asked to do that a bundle is sent to."""

_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that say nothing about what was sent; the same request may succeed later."""


@dataclass(frozen=True)
class Patience:
    """How long a registry that is down is tried again, in seconds."""

    attempts: int = 8
    first_wait_s: float = 0.5
    longest_wait_s: float = 20.0
    request_s: float = 300.0
    """For one request, an upload included."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)

    def wait_s(self, attempt: int, asked_s: float | None) -> float:
        """Return the wait after failed attempt number `attempt` (from 0): doubling, bounded.

        Args:
            attempt: Number of the attempt that failed.
            asked_s: What the registry's Retry-After asked for; None when it did not.
        """
        wait = asked_s if asked_s is not None else self.first_wait_s * float(2**attempt)
        return min(max(wait, 0.0), self.longest_wait_s)


@dataclass(frozen=True)
class Answer:
    """What a registry answered."""

    status: int
    """HTTP status."""
    body: bytes
    """Body, whole."""


class TryAgainError(Exception):
    """One attempt failed in a way that says nothing about what was sent."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


class RegistryClient:
    """One conversation with one registry; holds the HTTP session."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        registry: str,
        say: Callable[[str], None],
        patience: Patience,
    ) -> None:
        self._session = session
        self.registry = registry
        self.say = say
        self._patience = patience

    async def patiently(self, once: Callable[[], Awaitable[T]], what: str) -> T:
        """Do something until it succeeds or patience ends.

        Args:
            once: One attempt; raises `TryAgainError` when another one may succeed.
            what: What the registry is asked to do, to follow "did not".

        Raises:
            RegistryError: Every attempt failed.
        """
        for attempt in range(self._patience.attempts):
            try:
                return await once()
            except TryAgainError as error:
                why = str(error)
                if attempt + 1 == self._patience.attempts:
                    break
                wait = self._patience.wait_s(attempt, error.after_s)
                self.say(f"{why[0].upper()}{why[1:]}; trying again in {wait:.1f} s.")
                await self._patience.sleep(wait)
        raise RegistryError(
            f"The registry at {self.registry} did not {what} in "
            f"{self._patience.attempts} attempts: {why}.",
            "Nothing here was changed; run the same command again when the registry is up.",
        )

    async def ask(self, method: str, path: str, what: str, **content: Any) -> Answer:
        """Send one request, patiently.

        Args:
            method: HTTP method.
            path: Path below the registry's address, with its leading slash.
            what: What the registry is asked to do, to follow "did not".
            **content: Body and headers as the HTTP library takes them.

        Raises:
            RegistryError: The registry cannot be reached.
        """

        async def once() -> Answer:
            return await self.request(method, path, **content)

        return await self.patiently(once, what)

    async def request(
        self, method: str, path: str, *, follow: bool = False, **content: Any
    ) -> Answer:
        """Send one request, once.

        Args:
            method: HTTP method.
            path: Path below the registry's address.
            follow: Whether a redirect is followed, as to the store that holds an archive.
            **content: Body and headers as the HTTP library takes them.

        Raises:
            TryAgainError: There was no answer, or one that says nothing about what was sent.
            UsageError: The address is none.
        """
        try:
            async with self._session.request(
                method, f"{self.registry}{path}", allow_redirects=follow, **content
            ) as response:
                answer = Answer(response.status, await response.read())
                after = response.headers.get("Retry-After", "")
        except aiohttp.InvalidURL as error:
            raise UsageError(
                f"{one_line(self.registry, 200)} is no address that can be asked.",
                "Correct the URL.",
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TryAgainError(_connection_problem(error)) from error
        if answer.status in _AGAIN:
            asked = float(after) if after.isdigit() else None
            said = detail_of(answer.body)
            why = f"the registry answered {answer.status}"
            raise TryAgainError(f"{why} ({said.rstrip('.')})" if said else why, asked)
        return answer


@asynccontextmanager
async def registry_client(
    registry: str,
    *,
    say: Callable[[str], None],
    patience: Patience | None = None,
    token: str | None = None,
) -> AsyncIterator[RegistryClient]:
    """Talk to a registry for the `async with` block.

    Args:
        registry: Base URL, without a trailing slash.
        say: Gets a sentence for each step and each new attempt.
        patience: How long to try.
        token: What to send in the Authorization header; None: nothing.
    """
    used = patience or Patience()
    timeout = aiohttp.ClientTimeout(total=used.request_s, sock_connect=10)
    headers: Mapping[str, str] = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        yield RegistryClient(session, registry, say, used)


def _connection_problem(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        found = error.os_error
        # The codes of a name that is not found are not those of the system's errors.
        if isinstance(found, socket.gaierror):
            why = one_line(found.strerror or str(found), 160)
        else:
            why = os.strerror(found.errno) if found.errno else one_line(str(found), 160)
        return f"the registry cannot be reached ({why[:1].lower()}{why[1:]})"
    if isinstance(error, TimeoutError):
        return "the registry did not answer in time"
    return f"the connection to the registry broke ({type(error).__name__})"

"""HTTP client of a registry: sends a bundle once, however often it has to try.

Every step may be repeated without harm: a blob is addressed by its digest, and a submission is
unique by the digest of its bundle. So a lost answer, a restart of the registry and a second
`k3-eval submit` all end in one submission.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from k3bundle.subject import ChangeUnderTest
from k3runner.errors import RegistryError
from k3runner.registry_answer import error_of, object_of, refusal_of
from k3runner.visible import one_line

__all__ = ["Patience", "Receipt", "submit_bundle"]

T = TypeVar("T")

_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that say nothing about the bundle; the same request may succeed later."""
_CHUNK: Final = 1 << 20


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
class Receipt:
    """What a registry says about an accepted submission."""

    submission_id: str
    url: str
    bundle_sha256: str
    verdict: str
    trust: str
    already_there: bool

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes


class _TryAgainError(Exception):
    """One attempt failed in a way that says nothing about the bundle."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


async def submit_bundle(
    bundle: Path,
    registry: str,
    change: ChangeUnderTest,
    *,
    say: Callable[[str], None],
    patience: Patience | None = None,
) -> Receipt:
    """Upload a bundle if the registry lacks it, submit it, and return the receipt.

    Args:
        bundle: The sealed bundle's file; it is only read.
        registry: Base URL, without a trailing slash.
        change: The change that the bundle is evidence for.
        say: Gets a sentence for each step and each new attempt.
        patience: How long to try.

    Raises:
        RefusedError: The registry refused the bundle; its findings are in the error.
        RegistryError: The registry cannot be reached or answers with an error.
    """
    used = patience or Patience()
    timeout = aiohttp.ClientTimeout(total=used.request_s, sock_connect=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = _Client(session, registry, say, used)
        digest = await asyncio.to_thread(_file_sha256, bundle)
        await client.upload(bundle, digest)
        return await client.submit(digest, change)


class _Client:
    """One conversation with one registry; holds the HTTP session."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        registry: str,
        say: Callable[[str], None],
        patience: Patience,
    ) -> None:
        self._session = session
        self._registry = registry
        self._say = say
        self._patience = patience

    async def upload(self, bundle: Path, digest: str) -> None:
        """Make the registry hold the blob."""
        url = f"{self._registry}/api/v1/blobs/{digest}"

        async def once() -> bool:
            # Asked before every attempt: an upload whose answer was lost is there already.
            if (await self._request("HEAD", url)).status == 200:  # noqa: PLR2004
                return True
            with bundle.open("rb") as file:
                answer = await self._request("PUT", url, data=file)
            if answer.status in (200, 201):
                return False
            if answer.status == 422:  # noqa: PLR2004
                raise _TryAgainError("the bytes changed on the way to the registry")
            raise error_of(answer.status, answer.body, self._registry)

        there = await self._patiently(once)
        self._say("The registry has the bundle already." if there else "Uploaded the bundle.")

    async def submit(self, digest: str, change: ChangeUnderTest) -> Receipt:
        """Register the uploaded blob as a submission."""
        url = f"{self._registry}/api/v1/submissions"
        body = {"blob_sha256": digest, **change.model_dump(mode="json")}

        async def once() -> _Answer:
            return await self._request("POST", url, json=body)

        answer = await self._patiently(once)
        if answer.status in (200, 201):
            return _receipt(answer, self._registry)
        if answer.status == 422:  # noqa: PLR2004
            raise refusal_of(answer.body)
        raise error_of(answer.status, answer.body, self._registry)

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(self._patience.attempts):
            try:
                return await once()
            except _TryAgainError as error:
                why = str(error)
                if attempt + 1 == self._patience.attempts:
                    break
                wait = self._patience.wait_s(attempt, error.after_s)
                self._say(f"{why[0].upper()}{why[1:]}; trying again in {wait:.1f} s.")
                await self._patience.sleep(wait)
        raise RegistryError(
            f"The registry at {self._registry} did not take the bundle in "
            f"{self._patience.attempts} attempts: {why}.",
            "The bundle is kept; run the same command again when the registry is up.",
        )

    async def _request(self, method: str, url: str, **content: Any) -> _Answer:
        try:
            async with self._session.request(
                method, url, allow_redirects=False, **content
            ) as response:
                answer = _Answer(response.status, await response.read())
                after = response.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _TryAgainError(_connection_problem(error)) from error
        if answer.status in _AGAIN:
            asked = float(after) if after.isdigit() else None
            raise _TryAgainError(f"the registry answered {answer.status}", asked)
        return answer


def _receipt(answer: _Answer, registry: str) -> Receipt:
    found = object_of(answer.body)
    keys = ("submission_id", "url", "bundle_sha256", "verdict", "trust")
    values = {key: found.get(key) for key in keys}
    lacking = [key for key, value in values.items() if not isinstance(value, str)]
    if lacking:
        raise RegistryError(
            f"The registry at {registry} accepted the bundle, but its answer lacks "
            f"{', '.join(lacking)}.",
            "Check that the address is a k3-eval registry of the same version.",
        )
    return Receipt(
        **{key: one_line(str(value), 500) for key, value in values.items()},
        already_there=answer.status == 200,  # noqa: PLR2004
    )


def _connection_problem(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        code = error.os_error.errno
        why = os.strerror(code) if code else one_line(str(error.os_error), 160)
        return f"the registry cannot be reached ({why[:1].lower()}{why[1:]})"
    if isinstance(error, TimeoutError):
        return "the registry did not answer in time"
    return f"the connection to the registry broke ({type(error).__name__})"


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

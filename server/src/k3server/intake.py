"""The use case of the registry: receive, verify, store, index.

A blob is stored under its digest when its bytes are whole; nobody can read it from outside until a
submission names it, and no submission is indexed before its bundle is verified. Each step can be
repeated, so whatever moment the process dies at, sending again ends in one submission.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from starlette.concurrency import run_in_threadpool

from k3bundle.subject import ChangeUnderTest
from k3server.errors import Problem, PublicError
from k3server.parts import Parts
from k3server.ports import Added, BundleStore, DigestMismatchError, Refused, Verification
from k3server.settings import Settings
from k3server.submission import NewSubmission
from k3server.trust import Attribution, NonceTicket

__all__ = ["Claim", "Intake"]

_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Claim:
    """What a contributor says about a blob that was sent."""

    blob_sha256: str
    """Digest of the archive."""
    change: ChangeUnderTest
    """The change that it shall be evidence for."""


class Intake:
    """Takes in blobs and submissions; bounds how many are verified at once."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        *,
        draw_nonce: Callable[[], str] = lambda: secrets.token_hex(32),
    ) -> None:
        self._settings = settings
        self._store = parts.store
        self._index = parts.index
        self._ledger = parts.ledger
        self._verifier = parts.verifier
        self._clock = parts.clock
        self._draw_nonce = draw_nonce
        self._turns = asyncio.Semaphore(settings.verify_processes)
        self._waiting = 0

    async def receive(
        self, sha256: str, pieces: AsyncGenerator[bytes]
    ) -> Literal["created", "existing"]:
        """Take in the bytes of a blob.

        Args:
            sha256: The digest that the bytes must have.
            pieces: The bytes, in pieces of any size.

        Raises:
            PublicError: The digest differs (422); nothing is kept.
            StoreFullError: There is no room; nothing is kept.
        """
        try:
            incoming = await run_in_threadpool(self._store.begin, sha256)
            try:
                async with aclosing(_larger(pieces)) as larger:
                    async for piece in larger:
                        await run_in_threadpool(incoming.write, piece)
                # First said to be wanted, then stored: garbage collection never sees it between.
                await run_in_threadpool(self._ledger.renew, sha256, self._clock.now())
                return await run_in_threadpool(incoming.commit)
            finally:
                incoming.discard()
        except DigestMismatchError as error:
            raise PublicError(
                Problem(
                    422,
                    "The digest does not match",
                    f"Expected bytes with SHA-256 {error.expected}, found {error.found}. "
                    "Send the archive again under the digest of its own bytes.",
                )
            ) from None

    async def submit(self, claim: Claim) -> Added:
        """Verify a stored blob and index it; or find the submission that was made from it.

        Raises:
            PublicError: The blob is unknown (404), the bundle is refused (422), or too many
                submissions are waiting (503).
        """
        known = await run_in_threadpool(self._index.find_blob, claim.blob_sha256)
        if known is not None and known.row.change == claim.change:
            return Added(known, created=False)
        await run_in_threadpool(self._ledger.renew, claim.blob_sha256, self._clock.now())
        size = await run_in_threadpool(self._store.size, claim.blob_sha256)
        if size is None:
            raise PublicError(
                Problem(
                    404,
                    "The archive is not here",
                    f"Expected an archive with SHA-256 {claim.blob_sha256}, found none. "
                    f"Send it first: PUT /api/v1/blobs/{claim.blob_sha256}.",
                )
            )
        verification = await self._verify(claim)
        if isinstance(verification, Refused):
            raise _refusal(verification)
        new = NewSubmission(
            document=verification.document,
            blob_sha256=claim.blob_sha256,
            blob_size_bytes=size,
            received_at=self._clock.now(),
            attribution=self._known(verification.document.signer_fingerprint),
        )
        return await run_in_threadpool(self._index.add, new)

    async def issue_nonce(self, change: ChangeUnderTest, plan_sha256: str) -> NonceTicket:
        """Draw a nonce for a run of this plan on this change."""
        now = self._clock.now()
        ticket = NonceTicket(
            nonce=self._draw_nonce(),
            change=change,
            plan_sha256=plan_sha256,
            issued_at=now,
            expires_at=now + timedelta(seconds=self._settings.nonce_lifetime_s),
        )
        await run_in_threadpool(self._index.issue_nonce, ticket)
        return ticket

    def _known(self, signer: str) -> Attribution | None:
        known = signer in self._settings.known_signers
        return Attribution(f"key:{signer}", "signed") if known else None

    async def _verify(self, claim: Claim) -> Verification:
        if self._waiting >= self._settings.verify_queue:
            raise PublicError(
                Problem(
                    503,
                    "The registry is busy",
                    f"Expected fewer than {self._settings.verify_queue} submissions in the queue, "
                    "found it full. The archive is kept; send the submission again in a minute.",
                    headers={"Retry-After": "60"},
                )
            )
        self._waiting += 1
        try:
            async with self._turns, _materialised(self._store, claim.blob_sha256) as path:
                return await self._verifier.verify(path, claim.change)
        finally:
            self._waiting -= 1


@asynccontextmanager
async def _materialised(store: BundleStore, sha256: str) -> AsyncGenerator[Path]:
    """A local file with a blob's content; fetching it may take long, so a thread does."""
    holder = store.materialise(sha256)
    path = await run_in_threadpool(holder.__enter__)
    try:
        yield path
    finally:
        await run_in_threadpool(holder.__exit__, None, None, None)


def _refusal(refused: Refused) -> PublicError:
    count = len(refused.findings)
    first = refused.findings[0]
    more = "" if count == 1 else f" This is the first of {count} findings."
    detail = f"{first.where}: {first.why} {first.hint}{more}"
    return PublicError(Problem(422, refused.title, detail, findings=refused.findings))


async def _larger(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Join small pieces, so that the disk is asked once per MiB and not once per packet."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        if len(buffer) >= _PIECE_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)

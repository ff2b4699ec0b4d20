"""The use case of the registry: receive, verify, store, index.

A blob is stored under its digest when its bytes are whole; nobody can read it from outside until a
submission names it, and no submission is indexed before its bundle is verified. Each step can be
repeated, so whatever moment the process dies at, sending again ends in one submission.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

from starlette.concurrency import run_in_threadpool

from k3bundle.subject import ChangeUnderTest
from k3server.body_room import BodyRoom
from k3server.comparability import differences_of_results, independent
from k3server.errors import Problem, PublicError
from k3server.identification import Caller, Identification
from k3server.parts import Parts
from k3server.ports import Added, BundleStore, DigestMismatchError, Refused, Verification
from k3server.settings import Settings
from k3server.submission import NewSubmission, Submission
from k3server.trust import LADDER, NonceTicket

__all__ = ["Claim", "Intake"]

_PEERS = 200
"""Runs of the same plan that are looked through for one that agrees, the newest first."""


@dataclass(frozen=True)
class Claim:
    """What a contributor says about a blob that was sent."""

    blob_sha256: str
    """Digest of the archive."""
    change: ChangeUnderTest
    """The change that it shall be evidence for."""
    caller: Caller = field(default_factory=Caller)
    """Who says so."""


class Intake:
    """Takes in blobs and submissions; bounds how many are verified at once."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        identification: Identification,
        *,
        draw_nonce: Callable[[], str] = lambda: secrets.token_hex(32),
    ) -> None:
        self._settings = settings
        self._identification = identification
        self._store = parts.store
        self._index = parts.index
        self._ledger = parts.ledger
        self._verifier = parts.verifier
        self._clock = parts.clock
        self._draw_nonce = draw_nonce
        self._turns = asyncio.Semaphore(settings.verify_processes)
        self._waiting = 0
        self._room = BodyRoom()

    @property
    def waiting(self) -> int:
        """Submissions that are being verified or wait for their turn."""
        return self._waiting

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
                async with aclosing(_larger(pieces, self._room)) as larger:
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
            return Added(await self._attributed(known, claim.caller), created=False)
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
        signer = verification.document.signer_fingerprint
        new = NewSubmission(
            document=verification.document,
            blob_sha256=claim.blob_sha256,
            blob_size_bytes=size,
            received_at=self._clock.now(),
            attribution=await self._identification.attribution(claim.caller, signer),
        )
        added = await run_in_threadpool(self._index.add, new)
        witnessed = await run_in_threadpool(self._find_witnesses, added.submission)
        return Added(witnessed, created=added.created)

    async def issue_nonce(
        self, change: ChangeUnderTest, plan_sha256: str, signer: str
    ) -> NonceTicket:
        """Draw a nonce for a run of this plan on this change, to be signed by this key."""
        now = self._clock.now()
        ticket = NonceTicket(
            nonce=self._draw_nonce(),
            change=change,
            plan_sha256=plan_sha256,
            issued_at=now,
            expires_at=now + timedelta(seconds=self._settings.nonce_lifetime_s),
            signer=signer,
        )
        await run_in_threadpool(self._index.issue_nonce, ticket)
        return ticket

    async def _attributed(self, known: Submission, caller: Caller) -> Submission:
        """Note who stands behind a submission that is there already."""
        signer = known.document.signer_fingerprint
        found = await self._identification.attribution(caller, signer)
        # A token alone says who sent a bundle, and the first who did is known already.
        if found is None or (found.trust == LADDER[0] and known.row.identity is not None):
            return known
        now = self._clock.now()
        digest = known.row.bundle_sha256
        submission = await run_in_threadpool(self._index.attribute, digest, found, now)
        return await run_in_threadpool(self._find_witnesses, submission)

    def _find_witnesses(self, submission: Submission) -> Submission:
        """Look for independent runs that agree, and note each."""
        row = submission.row
        if row.space != "main" or row.state != "visible" or row.summary.status != "PASS":
            return submission
        plan = submission.document.manifest.run.plan_sha256
        found = False
        for each in self._index.of_plan(plan, limit=_PEERS, space="main"):
            if each.bundle_sha256 == row.bundle_sha256 or each.state != "visible":
                continue
            other = self._index.get(each.bundle_sha256)
            if (
                other is not None
                and independent(submission, other)
                and not differences_of_results(submission.document, other.document)
            ):
                now = self._clock.now()
                self._index.add_witness(row.bundle_sha256, each.bundle_sha256, now)
                found = True
        again = self._index.get(row.bundle_sha256) if found else submission
        return submission if again is None else again

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


async def _larger(pieces: AsyncGenerator[bytes], room: BodyRoom) -> AsyncGenerator[bytes]:
    """Join small pieces, so that a thread is not asked once per packet."""
    held: list[bytes] = []
    size = 0
    with room.body():
        async for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= room.piece_bytes:
                yield held[0] if len(held) == 1 else b"".join(held)
                held.clear()
                size = 0
        if held:
            yield b"".join(held)

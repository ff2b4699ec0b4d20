"""A verifier that says what a test told it."""

import asyncio
from pathlib import Path

from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument
from k3server.ports import Verification, Verified

__all__ = ["StubVerifier"]


class StubVerifier:
    """Answers by the content of the archive; keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[bytes, Verification] = {}
        self.asked: list[ChangeUnderTest] = []
        self.pause_s = 0.0

    def accept(self, archive: bytes, document: SubmissionDocument) -> None:
        """Answer this archive with this document."""
        self.answers[archive] = Verified(document)

    async def verify(self, archive: Path, change: ChangeUnderTest) -> Verification:
        """The answer for the archive's content."""
        self.asked.append(change)
        content = archive.read_bytes()
        await asyncio.sleep(self.pause_s)
        return self.answers[content]

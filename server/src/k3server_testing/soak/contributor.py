"""A contributor who sends bundles, counts the answers, and sends again until told that it is in."""

import threading
import time
from collections import Counter
from typing import Final

import httpx

from k3bundle.canonical import sha256_hex
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive

__all__ = ["Contributor"]

_TAKEN: Final = frozenset({200, 201})
_AGAIN_S: Final = 0.2
_PROBLEM: Final = "application/problem+json"


class Contributor:
    """Sends bundles to a registry that things happen to; several threads may share one."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        """Status -> answers; `none` where the connection ended without one, `untyped` for a
        refusal that is no problem+json."""
        self.acknowledged: set[str] = set()
        """Submissions that the registry said it has."""
        self._made = 0
        self._lock = threading.Lock()

    def bundle(self) -> bytes:
        """A new bundle."""
        self._made += 1
        return sealed_archive(run_id=f"{self._made:032x}")

    def send(self, client: httpx.Client, archive: bytes) -> str | None:
        """Send an archive and submit it; the id when the registry acknowledged it."""
        digest = sha256_hex(archive)
        try:
            put = client.put(f"/api/v1/blobs/{digest}", content=archive)
            if not self._is_taken(put):
                return None
            claim = {"blob_sha256": digest, **EXAMPLE_CHANGE.model_dump()}
            answer = client.post("/api/v1/submissions", json=claim)
        except httpx.TransportError:
            self._count("none")
            return None
        if not self._is_taken(answer):
            return None
        identity: str = answer.json()["submission_id"]
        with self._lock:
            self.acknowledged.add(identity)
        return identity

    def send_until_taken(self, client: httpx.Client, archive: bytes, *, within_s: float) -> bool:
        """Send again and again; False when it was not acknowledged in time."""
        deadline = time.monotonic() + within_s
        while self.send(client, archive) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_AGAIN_S)
        return True

    def _is_taken(self, answer: httpx.Response) -> bool:
        taken = answer.status_code in _TAKEN
        typed = taken or answer.headers.get("content-type") == _PROBLEM
        self._count(str(answer.status_code) if typed else "untyped")
        return taken

    def _count(self, what: str) -> None:
        with self._lock:
            self.answers[what] += 1

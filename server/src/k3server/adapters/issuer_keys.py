"""Keys of the issuer of identity tokens: fetched from one fixed address, remembered for a while."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import jwt
import urllib3

from k3server.account_ports import IssuerUnavailableError
from k3server.errors import MachineError
from k3server.workflow_identity import keys_of

__all__ = ["HttpIssuer"]

_PATH: Final = "/.well-known/jwks"
_TIMEOUT_S: Final = 10.0
_LARGEST: Final = 1 << 20
_OK: Final = 200
_REMEMBERED_S: Final = 3600.0
_LEAST_PAUSE_S: Final = 30.0
_OWN_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class HttpIssuer:
    """An `Issuer` behind HTTP. No redirect is followed, and no address comes from a token."""

    def __init__(self, address: str, *, now: Callable[[], float] = time.monotonic) -> None:
        """Keep the address; nothing is asked yet.

        Args:
            address: The issuer's name, which is also where its keys are.
            now: A clock in seconds that never goes back.

        Raises:
            MachineError: It is no https address, nor one of this machine.
        """
        parts = urlsplit(address)
        if parts.hostname is None or (
            parts.scheme != "https"
            and not (parts.scheme == "http" and parts.hostname in _OWN_MACHINE)
        ):
            raise MachineError(
                f"Expected an https address as the issuer of identity tokens, found {address!a}.",
                "Check --github-actions-issuer.",
            )
        self.address = address
        self._now = now
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=_TIMEOUT_S, read=_TIMEOUT_S), retries=False
        )
        self._lock = threading.Lock()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._asked_at: float | None = None
        self._problem: IssuerUnavailableError | None = None

    def key(self, key_id: str) -> jwt.PyJWK | None:
        """The key of this name; None when the issuer publishes none."""
        # One at a time, and not again at once: made-up key names, or an issuer that is down, must
        # not hold up everybody else.
        with self._lock:
            age = None if self._asked_at is None else self._now() - self._asked_at
            known = self._keys.get(key_id)
            fresh = age is not None and age < (_REMEMBERED_S if known else _LEAST_PAUSE_S)
            if not fresh:
                self._asked_at = self._now()
                try:
                    self._keys, self._problem = self._fetch(), None
                except IssuerUnavailableError as error:
                    self._problem = error
                known = self._keys.get(key_id)
            # A key that was good an hour ago is better than none.
            if known is None and self._problem is not None:
                raise IssuerUnavailableError(str(self._problem))
            return known

    def _fetch(self) -> Mapping[str, jwt.PyJWK]:
        try:
            answer = self._pool.request(
                "GET",
                self.address.rstrip("/") + _PATH,
                headers={"Accept": "application/json", "User-Agent": "k3-eval-registry"},
                redirect=False,
                preload_content=False,
            )
            content = answer.read(_LARGEST + 1, decode_content=True)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise IssuerUnavailableError(f"The issuer does not answer: {error}.") from error
        if answer.status != _OK or len(content) > _LARGEST:
            raise IssuerUnavailableError(f"The issuer answers {answer.status} and no keys.")
        try:
            return keys_of(content)
        except ValueError as error:
            raise IssuerUnavailableError("The issuer's keys cannot be read.") from error

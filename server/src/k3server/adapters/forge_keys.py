"""Keys that GitHub accounts publish, asked of the forge and remembered for some minutes."""

import threading
import time
from typing import Final

from k3bundle.sshsig import SignatureError, fingerprint
from k3server.account_ports import KeysUnavailableError, NoDirectoryError
from k3server.forge.client import ForgeClient, ForgeError, ForgeRefusedError

__all__ = ["ForgeKeys", "NoKeys"]

_REMEMBERED_S: Final = 600.0
_MOST: Final = 4096


class ForgeKeys:
    """A `KeyDirectory` behind a forge's REST interface."""

    def __init__(self, client: ForgeClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    def fingerprints(self, account: str) -> frozenset[str]:
        """Fingerprints of the keys of an account."""
        name = account.lower()
        now = time.monotonic()
        with self._lock:
            known = self._known.get(name)
        if known is not None and now - known[0] < _REMEMBERED_S:
            return known[1]
        found = self._ask(name)
        # No keys are not remembered: the contributor will add one and try again at once.
        if found:
            with self._lock:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[name] = (now, found)
        return found

    def _ask(self, account: str) -> frozenset[str]:
        try:
            lines = self._client.signing_keys(account)
        except ForgeRefusedError:
            # There is no such account.
            return frozenset()
        except ForgeError as error:
            raise KeysUnavailableError(str(error)) from error
        found = set()
        for line in lines:
            try:
                found.add(fingerprint(line))
            except (SignatureError, ValueError):
                # A kind of key that bundles are not signed with.
                continue
        return frozenset(found)


class NoKeys:
    """A `KeyDirectory` of a registry that was not told of a forge."""

    def fingerprints(self, account: str) -> frozenset[str]:
        """Nothing can be asked."""
        raise NoDirectoryError(
            f"This registry was not told where to ask for the keys of {account}."
        )

"""Regular work of a running registry: garbage collection, once an hour by default."""

import logging
import threading
from types import TracebackType
from typing import Final, Self

from k3server.parts import Parts
from k3server.ports import StoreFullError, StoreUnavailableError
from k3server.settings import Settings
from k3server.upkeep import collect_garbage

__all__ = ["Caretaker"]

_LOG: Final = logging.getLogger("k3server.caretaker")
_STOP_S: Final = 10.0


class Caretaker:
    """A thread beside the server, from entering the block to leaving it."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts
        self._stopped = threading.Event()
        # A daemon: it must never keep a registry from ending that was asked to stop.
        self._thread = threading.Thread(target=self._run, name="caretaker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._stopped.wait(self._settings.garbage_every_s):
            try:
                collected = collect_garbage(
                    self._parts.store,
                    self._parts.ledger,
                    now=self._parts.clock.now(),
                    keep_s=self._settings.garbage_age_s,
                )
            except (StoreUnavailableError, StoreFullError, OSError) as error:
                _LOG.warning("garbage collection put off: %s", error)
            else:
                _LOG.info("garbage collection: %s", collected)

"""Regular work of a running registry, in threads beside the server."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from k3server.forge.teller import Teller
from k3server.parts import Parts
from k3server.ports import StoreFullError, StoreUnavailableError
from k3server.settings import Settings
from k3server.upkeep import collect_garbage

__all__ = ["Caretaker"]

_LOG: Final = logging.getLogger("k3server.caretaker")
_STOP_S: Final = 10.0
_POLLED: Final = 500


class Caretaker:
    """Collects garbage, tells the forge and looks at it; from entering the block to leaving it."""

    def __init__(self, settings: Settings, parts: Parts, teller: Teller | None = None) -> None:
        self._settings = settings
        self._parts = parts
        self._teller = teller
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._begin("garbage", self._settings.garbage_every_s, self._collect)
        if self._teller is not None:
            self._begin("teller", self._settings.tell_every_s, self._tell)
            self._begin("poller", self._settings.poll_every_s, self._poll)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(_STOP_S)

    def _begin(self, name: str, every_s: float, work: Callable[[], None]) -> None:
        def run() -> None:
            while not self._stopped.wait(every_s):
                try:
                    work()
                except (StoreUnavailableError, StoreFullError, OSError) as error:
                    _LOG.warning("%s put off: %s", name, error)
                except Exception:
                    # One defect must not end the work for good; it is told each time.
                    _LOG.exception("defect in %s", name)

        # A daemon: it must never keep a registry from ending that was asked to stop.
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _collect(self) -> None:
        collected = collect_garbage(
            self._parts.store,
            self._parts.ledger,
            now=self._parts.clock.now(),
            keep_s=self._settings.garbage_age_s,
        )
        _LOG.info("garbage collection: %s", collected)

    def _tell(self) -> None:
        if self._teller is not None:
            while self._teller.work() and not self._stopped.is_set():
                continue

    def _poll(self) -> None:
        """Look again at what was submitted last: deliveries are hints, and some never come."""
        now = self._parts.clock.now()
        rows = self._parts.index.latest(limit=_POLLED, space="main")
        for repository, number in {(r.change.repository, r.change.pull_request) for r in rows}:
            self._parts.outbox.note(repository, number, now)

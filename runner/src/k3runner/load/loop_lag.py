"""How late the event loop is: a timer that notes by how much it missed its moment.

What the loop cannot do in time it also cannot receive in time, so this is the error of every time
that the client takes. It is looked at often while much arrives and seldom while little does: a
timer costs as much as an event, and a client that waits must not cost more than what it waits for.
"""

import asyncio
import time
from array import array
from collections.abc import Callable
from types import TracebackType

__all__ = ["LoopLag"]

_BUSY_PERIOD_S = 0.01
_IDLE_PERIOD_S = 0.1
_BUSY_EVENTS = 10
"""Events since the last look from which on the loop counts as busy."""


class LoopLag:
    """Samples the lag of the running event loop. Use as a context manager."""

    def __init__(self, events: Callable[[], int]) -> None:
        """Prepares sampling.

        Args:
            events: How many events have come so far.
        """
        self._events = events
        self._seen = 0
        self.samples_ns: array[int] = array("q")
        """Each delay, in nanoseconds."""
        self._handle: asyncio.TimerHandle | None = None
        self._due_ns = 0

    def __enter__(self) -> "LoopLag":
        self._again(time.monotonic_ns())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _again(self, now_ns: int) -> None:
        events = self._events()
        busy = events - self._seen >= _BUSY_EVENTS
        self._seen = events
        period_s = _BUSY_PERIOD_S if busy else _IDLE_PERIOD_S
        self._due_ns = now_ns + round(period_s * 1e9)
        self._handle = asyncio.get_running_loop().call_later(period_s, self._fired)

    def _fired(self) -> None:
        now_ns = time.monotonic_ns()
        # A timer that is rounded down fires a hair early; that is no negative lag.
        self.samples_ns.append(max(0, now_ns - self._due_ns))
        self._again(now_ns)

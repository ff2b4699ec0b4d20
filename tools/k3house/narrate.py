"""Progress for a person, on stderr: step n of m, what it does, how long it took."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Narrator"]

_BEAT_S = 1.0
_PLAIN_BEATS = 15


class Narrator:
    """Counts steps. On a terminal the running step's line shows its elapsed time."""

    def __init__(self, step_count: int) -> None:
        self._step_count = step_count
        self._step = 0
        self._started = time.monotonic()
        self._terminal = sys.stderr.isatty()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Announce a step, show that it is alive, and say how long it took."""
        self._step += 1
        head = f"[{self._step}/{self._step_count}] {what}"
        started = time.monotonic()
        over = threading.Event()
        beat = threading.Thread(target=self._beat, args=(head, started, over), daemon=True)
        if not self._terminal:
            self.say(f"{head} ...")
        beat.start()
        try:
            yield
        except BaseException:
            over.set()
            beat.join()
            self._end_line(f"{head}: stopped after {time.monotonic() - started:.1f} s")
            raise
        over.set()
        beat.join()
        self._end_line(f"{head}: {time.monotonic() - started:.1f} s")

    def say(self, text: str) -> None:
        """One line."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def elapsed_s(self) -> float:
        """Seconds since the first step was planned."""
        return time.monotonic() - self._started

    def _beat(self, head: str, started: float, over: threading.Event) -> None:
        beats = 0
        while not over.wait(_BEAT_S if beats or not self._terminal else 0.0):
            beats += 1
            elapsed = time.monotonic() - started
            if self._terminal:
                sys.stderr.write(f"\r\x1b[K{head} ... {elapsed:.0f} s")
                sys.stderr.flush()
            elif beats % _PLAIN_BEATS == 0:
                self.say(f"      still at it, {elapsed:.0f} s")

    def _end_line(self, text: str) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
        self.say(text)

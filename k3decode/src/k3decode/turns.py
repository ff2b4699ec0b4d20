"""Turns of several processes on one GPU: many prepare at a time, one times alone.

Two locked files. Who wants to be alone holds the gate while it waits for the room to empty, so that
nobody new comes in. Locks end with their process.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Turns"]


class Turns:
    """What processes that name the same file share; without a file, nothing is waited for."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @contextmanager
    def together(self) -> Iterator[None]:
        """With others who are together, while nobody is alone."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody else is inside."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        if self._path is None:
            yield
            return
        gate, room = (
            self._path.with_name(f"{self._path.name}.{part}") for part in ("gate", "room")
        )
        with room.open("w") as inside:
            with gate.open("w") as waiting:
                fcntl.flock(waiting, fcntl.LOCK_EX)
                fcntl.flock(inside, how)
            yield

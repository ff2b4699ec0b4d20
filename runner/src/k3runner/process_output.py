"""Takes what a process says through pipes: clean into its log, or bounded into memory.

What an engine writes may hold tokens, names and addresses, and a run folder outlives the run. So
nothing of it reaches the disk as it was said: a thread of the runner reads the pipe, cleans whole
lines and appends them.
"""

import codecs
import contextlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["BoundedOutput", "CleanLog", "OutputPipe"]

_PIECE_BYTES: Final = 1 << 16
_MOST_HELD: Final = 1 << 16
"""Letters without the end of a line, or of a private key, that are waited for."""
_OPEN_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?!.*?-----END [A-Z ]*-----)", re.S
)
_LAST_SPACE: Final = re.compile(r"\s(?=\S*\Z)")


class OutputPipe:
    """A pipe that a process writes into, and the thread that reads it."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        """Opens the pipe.

        Args:
            take: Called in the thread with every piece, and with nothing at the end.
        """
        self._take = take
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._read, name="output", daemon=True)

    def begin(self) -> None:
        """Leaves the end that is written into to the process, and reads until that is closed."""
        os.close(self.write_end)
        self._thread.start()

    def wait(self, limit_s: float) -> None:
        """Waits until all is taken; a process that was left with the pipe is not waited for."""
        self._thread.join(limit_s)

    def _read(self) -> None:
        try:
            while piece := os.read(self._read_end, _PIECE_BYTES):
                self._take(piece)
        finally:
            self._take(b"")
            os.close(self._read_end)


class CleanLog:
    """Appends text to a log, clean and in whole lines."""

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        """Opens the log for appending.

        Args:
            path: The log.
            clean: Returns what may be kept of a text; gets whole lines, and a private key in one.
        """
        # Unbuffered: whoever looks at the log sees what was said so far.
        self._file = path.open("ab", buffering=0)
        self._clean = clean
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""

    def take(self, piece: bytes) -> None:
        """Takes the next bytes; none are the end."""
        self._held += self._decode(piece, not piece)
        ready = self._ready() if piece else len(self._held)
        text, self._held = self._held[:ready], self._held[ready:]
        if text:
            # On a full disk the journal fails too and says it; the process must not wait here.
            with contextlib.suppress(OSError):
                self._file.write(self._clean(text).encode("utf-8"))
        if not piece:
            self._file.close()

    def _ready(self) -> int:
        """How much of what is held can be cleaned: no half line, no half private key."""
        held = self._held
        end = max(held.rfind("\n"), held.rfind("\r")) + 1
        key = _OPEN_KEY.search(held, 0, end)
        if key is not None:
            end = min(end, key.start())
        if len(held) - end <= _MOST_HELD:
            return end
        space = _LAST_SPACE.search(held, len(held) - _MOST_HELD)
        return len(held) if space is None else space.end()


class BoundedOutput:
    """Keeps what a process says in memory, as far as it is read at all."""

    def __init__(self, limit: int) -> None:
        """Keeps nothing yet.

        Args:
            limit: Most bytes that are read.
        """
        self._limit = limit
        self._content = bytearray()
        self.size = 0
        """Bytes that were said."""

    def take(self, piece: bytes) -> None:
        """Takes the next bytes."""
        self.size += len(piece)
        if self.size <= self._limit:
            self._content += piece

    @property
    def content(self) -> bytes:
        """All that was said; nothing of what is too much."""
        return bytes(self._content) if self.size <= self._limit else b""

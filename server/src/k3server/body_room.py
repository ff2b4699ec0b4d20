"""How many bytes of request bodies are joined before a thread takes them.

Few large pieces cost less than many small ones, and what two hundred uploads hold at once must stay
small: so the pieces shrink as bodies become more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["BodyRoom"]

_LEAST_BYTES: Final = 16 * 1024
_MOST_BYTES: Final = 512 * 1024
_TOGETHER_BYTES: Final = 2 * 1024 * 1024


class BodyRoom:
    """Shared by all bodies of one application. Everything runs in one thread."""

    def __init__(self) -> None:
        self._bodies = 0

    @contextmanager
    def body(self) -> Iterator[None]:
        """Count one body for the `with` block."""
        self._bodies += 1
        try:
            yield
        finally:
            self._bodies -= 1

    @property
    def piece_bytes(self) -> int:
        """Size of a piece now, in bytes: 16 to 512 KiB."""
        share = _TOGETHER_BYTES // max(1, self._bodies)
        return max(_LEAST_BYTES, min(_MOST_BYTES, share))

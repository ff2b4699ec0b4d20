"""A log as text of bounded length: its beginning and its end, without halves of words."""

import re
from pathlib import Path
from typing import Final

__all__ = ["log_text", "replace_text"]

_LONGEST_WORD: Final = 4096
_LAST_WORD: Final = re.compile(rb"\S{1,%d}\Z" % _LONGEST_WORD)
_FIRST_WORD: Final = re.compile(rb"\A\S{1,%d}" % _LONGEST_WORD)


def log_text(path: Path, limit: int) -> str:
    """The text of a log.

    Args:
        path: The log.
        limit: Most bytes; of a longer one, half as many are read at each end. A word at a cut is
            left out: half a token is no longer known as one.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= limit:
            return file.read().decode("utf-8", "replace")
        half = limit // 2
        # The search for the last word starts close to it: from the start it would be quadratic.
        head = file.read(half)
        head = head[:-_LONGEST_WORD] + _LAST_WORD.sub(b"", head[-_LONGEST_WORD:])
        file.seek(size - half)
        tail = _FIRST_WORD.sub(b"", file.read())
    note = f"\n[... {size - len(head) - len(tail)} bytes left out ...]\n".encode()
    return (head + note + tail).decode("utf-8", "replace")


def replace_text(path: Path, text: str) -> None:
    """Puts another text in the place of a file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)

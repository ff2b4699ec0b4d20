"""Parses what git says about a difference: touched paths and changed line ranges. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Hunk", "HunkReader", "RawChange", "added_lines", "parse_raw_changes", "removed_lines"]

NO_BLOB: Final = "0" * 40
"""How git names the blob of a path that is not there."""
_INDEX: Final = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: \d+)?\s*$")
_HUNK: Final = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Hunk:
    """One changed range; a count of 0 means that the side has no line there."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


@dataclass(frozen=True)
class RawChange:
    """One touched path."""

    status: str
    """A added, M modified, D deleted, R renamed, T type changed."""
    path: str
    """Path after the change; before it for a deleted one."""
    previous_path: str | None
    """Path before a rename."""
    old_mode: str
    """File mode before, six octal digits."""
    new_mode: str
    """File mode after."""
    old_blob: str
    """Object name before; zeros when there was none."""
    new_blob: str
    """Object name after; zeros when there is none."""


def parse_raw_changes(listing: bytes) -> tuple[RawChange, ...]:
    """Parses the output of `git diff-tree --raw -z --no-abbrev`, sorted by path.

    Bytes of a path that are not UTF-8 are written as escapes.
    """
    fields = iter(listing.split(b"\0"))
    changes = []
    for head in fields:
        if not head.startswith(b":"):
            continue
        old_mode, new_mode, old_blob, new_blob, status = head[1:].decode("ascii").split(" ")
        first = _path(next(fields))
        renamed = status[0] in "RC"
        path = _path(next(fields)) if renamed else first
        changes.append(
            RawChange(
                status=status[0],
                path=path,
                previous_path=first if renamed else None,
                old_mode=old_mode,
                new_mode=new_mode,
                old_blob=old_blob,
                new_blob=new_blob,
            )
        )
    return tuple(sorted(changes, key=lambda change: change.path))


def _path(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


class HunkReader:
    """Collects line ranges from a patch without context, line by line.

    Files are told apart by the names of their blobs, which equal content shares: names of paths
    in a patch are quoted in ways that another path could imitate.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Hunk]] = {}
        self._current: list[Hunk] | None = None

    def feed(self, line: bytes) -> None:
        """Takes the next line. Lines of content begin with a sign and are passed over."""
        index = _INDEX.match(line)
        if index:
            names = (index[1].decode(), index[2].decode())
            # The same pair of blobs at several paths has the same ranges each time.
            self._current = [] if names in self._found else self._found.setdefault(names, [])
            return
        hunk = _HUNK.match(line)
        if hunk and self._current is not None:
            old_start, old_count, new_start, new_count = (
                int(hunk[1]),
                int(hunk[2] or 1),
                int(hunk[3]),
                int(hunk[4] or 1),
            )
            self._current.append(Hunk(old_start, old_count, new_start, new_count))

    def finish(self) -> dict[tuple[str, str], tuple[Hunk, ...]]:
        """The ranges by (blob before, blob after)."""
        return {names: tuple(hunks) for names, hunks in self._found.items()}


def added_lines(hunks: tuple[Hunk, ...]) -> Iterator[int]:
    """Numbers of added lines, in the file after the change."""
    for hunk in hunks:
        yield from range(hunk.new_start, hunk.new_start + hunk.new_count)


def removed_lines(hunks: tuple[Hunk, ...]) -> Iterator[int]:
    """Numbers of removed lines, in the file before the change."""
    for hunk in hunks:
        yield from range(hunk.old_start, hunk.old_start + hunk.old_count)

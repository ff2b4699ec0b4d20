"""Server-sent events from bytes, as the HTML standard says. Pure: no socket, no clock.

Bytes may be cut anywhere, also inside a UTF-8 character or between CR and LF.
"""

from typing import NamedTuple

__all__ = ["ServerSentEvent", "SseError", "SseParser"]


class SseError(Exception):
    """The stream is not UTF-8 text."""


class ServerSentEvent(NamedTuple):
    """One dispatched event."""

    name: str
    """The `event:` field; `message` when there was none."""
    data: str
    """The `data:` lines, joined by line feeds."""


class SseParser:
    """Turns a stream of byte chunks into events."""

    def __init__(self) -> None:
        self._buffer = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Takes the next bytes and returns the events they complete.

        Raises:
            SseError: A complete line is not UTF-8.
        """
        lines, self._buffer = _split(self._buffer + chunk)
        events: list[ServerSentEvent] = []
        for line in lines:
            self._take(line, events)
        return events

    def finish(self) -> bool:
        """Ends the stream.

        Returns:
            True when it ended between events; False when an event was cut.
        """
        clean = not self._buffer.strip(b"\r\n") and not self._data
        self._buffer, self._data, self._name = b"", [], ""
        return clean

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            if self._data:
                events.append(ServerSentEvent(self._name or "message", "\n".join(self._data)))
            self._name, self._data = "", []
            return
        if line.startswith(b":"):
            return
        field, _, value = _text(line).partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines, and the rest. CR, LF and CRLF end a line."""
    # A CR at the very end may be half of a CRLF whose LF is still on its way.
    held = content[-1:] == b"\r"
    text = content[:-1] if held else content
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    rest = lines.pop()
    return lines, rest + b"\r" if held else rest


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SseError(f"a line of the stream is not UTF-8: {error}") from error

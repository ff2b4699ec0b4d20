"""Server-sent events from bytes, as the HTML standard says. Pure: no socket, no clock.

Bytes may be cut anywhere, also inside a UTF-8 character or between CR and LF.
"""

from dataclasses import dataclass

__all__ = ["ServerSentEvent", "SseError", "SseParser"]


class SseError(Exception):
    """The stream is not UTF-8 text."""


@dataclass(frozen=True)
class ServerSentEvent:
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
        self._buffer += chunk
        events: list[ServerSentEvent] = []
        while (line := self._next_line()) is not None:
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

    def _next_line(self) -> bytes | None:
        ends = [at for at in (self._buffer.find(b"\n"), self._buffer.find(b"\r")) if at >= 0]
        if not ends:
            return None
        end = min(ends)
        if self._buffer[end : end + 1] == b"\r":
            # A CR at the very end may be half of a CRLF whose LF is still on its way.
            if end + 1 == len(self._buffer):
                return None
            width = 2 if self._buffer[end + 1 : end + 2] == b"\n" else 1
        else:
            width = 1
        line, self._buffer = self._buffer[:end], self._buffer[end + width :]
        return line

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            if self._data:
                events.append(ServerSentEvent(self._name or "message", "\n".join(self._data)))
            self._name, self._data = "", []
            return
        if line.startswith(b":"):
            return
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SseError(f"a line of the stream is not UTF-8: {error}") from error
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

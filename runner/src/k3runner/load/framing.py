"""Takes the framing of HTTP chunks off a capture, and knows when each piece of the body came. Pure.

A stream in which every chunk is one event of one `data: ` line, as servers send it, is taken apart
at its line ends, and every length is checked. Everything else goes through the parser of httptools.
"""

from dataclasses import dataclass

import httptools

from k3runner.load.capture import Capture

__all__ = ["FramingError", "PlainEvents", "bodies", "plain_events"]

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_LINE_END = b"\r\n"
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_LAST_PARTS = [b"0", b"", b""]
"""What is left of the last chunk between its line ends."""
_EVENT_START = b"data: "
_EVENT_END = b"\n\n"


class FramingError(Exception):
    """The bytes are not HTTP chunks."""


@dataclass(frozen=True)
class PlainEvents:
    """A stream of nothing but one-line events."""

    data: list[bytes]
    """What stands after `data: ` in each event."""
    stamps: list[int]
    """When the last byte of each event came."""


@dataclass
class _Collector:
    found: list[tuple[int, bytes]]
    now_ns: int = 0

    def on_body(self, body: bytes) -> None:
        self.found.append((self.now_ns, body))


def bodies(capture: Capture) -> list[tuple[int, bytes]]:
    """(time received, bytes) of each piece of the body, without framing.

    Raises:
        FramingError: The content is not what it says it is.
    """
    if not capture.chunked:
        return list(capture.pieces())
    collector = _Collector([])
    parser = httptools.HttpResponseParser(collector)
    try:
        parser.feed_data(_HEAD)
        for collector.now_ns, piece in capture.pieces():
            parser.feed_data(piece)
    except httptools.HttpParserError as error:
        raise FramingError(str(error)) from error
    return collector.found


def plain_events(capture: Capture) -> PlainEvents | None:
    """The events of a capture where all of them are plain; None where one is not.

    The event that ends the stream is one of them.
    """
    content = bytes(capture.content)
    parts = content.split(_LINE_END)
    lengths, events = parts[:-3:2], parts[1:-3:2]
    count = len(events)
    if (
        not capture.chunked
        or parts[-3:] != _LAST_PARTS
        or len(lengths) != count
        # Two line ends for each chunk and one empty line in it; no other line end is anywhere.
        or content.count(b"\n") != 4 * count + 2
        or content.count(b"\r") != 2 * count + 2
        or not _is_utf8(content)
    ):
        return None
    ends, stamps, piece, end = capture.ends, capture.stamps, 0, 0
    data: list[bytes] = []
    received: list[int] = []
    for length, event in zip(lengths, events, strict=True):
        size = len(event)
        if (
            not length
            or length.strip(_HEX_DIGITS)
            or int(length, 16) != size
            or not event.startswith(_EVENT_START)
            or not event.endswith(_EVENT_END)
        ):
            return None
        end += len(length) + size + 2 * len(_LINE_END)
        while ends[piece] < end:
            piece += 1
        received.append(stamps[piece])
        data.append(event[len(_EVENT_START) : -len(_EVENT_END)])
    return PlainEvents(data, received)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

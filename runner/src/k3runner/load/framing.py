"""Takes the framing of HTTP chunks off a capture, and knows when each piece of the body came. Pure.

A stream in which every chunk is one event of one `data: ` line, as servers send it, is taken apart
by one pattern, and every length is checked. Everything else goes through the parser of httptools.
"""

import re
from dataclasses import dataclass

import httptools

from k3runner.load.capture import Capture

__all__ = ["FramingError", "PlainEvents", "bodies", "plain_events"]

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})\r\ndata: ([^\r\n]*)\n\n\r\n")
_AROUND = len(b"\r\ndata: \n\n\r\n")
"""Bytes of such a chunk beside its length and its data."""
_AROUND_DATA = len(b"data: \n\n")


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
    if not capture.chunked or not content.endswith(_LAST_CHUNK) or not _is_utf8(content):
        return None
    chunks = _CHUNK.findall(content)
    ends, stamps, piece = capture.ends, capture.stamps, 0
    end = 0
    received: list[int] = []
    for length, data in chunks:
        if int(length, 16) != len(data) + _AROUND_DATA:
            return None
        end += len(length) + len(data) + _AROUND
        while ends[piece] < end:
            piece += 1
        received.append(stamps[piece])
    # Nothing between, before or after the chunks but the last one.
    if end + len(_LAST_CHUNK) != len(content):
        return None
    return PlainEvents([data for _, data in chunks], received)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

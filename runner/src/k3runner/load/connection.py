"""One connection to a server, and the pool that keeps idle ones.

Receiving a stream does three things per read: take the time, keep the bytes, look whether they are
the last. Everything else is done outside of the measuring process, the framing of chunks included.
Why not a general HTTP client: docs/decisions/0007-load-client.md.
"""

import asyncio
import ssl
import time
from collections import deque
from typing import cast

import httptools

from k3runner.load.address import Address
from k3runner.load.capture import Capture, Ending

__all__ = ["Connection", "ConnectionPool"]

_IDLE_LIMIT_NS = 2_000_000_000
"""Servers close idle connections after 5 s. Ours are given up before that, because a request on a
connection that is just being closed would count as failed."""
_CONNECT_LIMIT_S = 10.0
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_NO_CHUNK = b"0\r\n\r\n"
_EVENT = b"data:"
"""A hung engine may still send comments: only events are progress."""


class Connection(asyncio.Protocol):
    """One exchange at a time."""

    def __init__(self) -> None:
        self.idle_since_ns = 0
        """When the last exchange ended."""
        self.capture: Capture | None = None
        """The exchange in progress."""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._ended: asyncio.Future[None] | None = None
        self._now = 0
        self._head = b""
        self._has_length = False
        self._headers_seen = False

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, payload: bytes, capture: Capture) -> None:
        """Sends a request and fills the capture until the response ends, however it ends."""
        if self._transport is None or not self.usable:
            capture.detail = "the connection was closed before the request was sent"
            capture.ended_ns = time.monotonic_ns()
            return
        self.capture = capture
        self._parser = httptools.HttpResponseParser(self)
        self._head = b""
        self._has_length = self._headers_seen = False
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(payload)
        try:
            await self._ended
        finally:
            # Left half-way by a cancelled caller: what still comes belongs to nobody.
            if self.capture is not None:
                self._finish("closed", "the client was stopped")
                self.close()

    def end(self, ending: Ending, detail: str) -> None:
        """Ends the exchange in progress from outside, and with it the connection."""
        self._finish(ending, detail)
        self.close()

    def close(self) -> None:
        """Drops the connection without a word."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # The event loop hands over what it made: a transport that reads and writes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop for every read."""
        now_ns = time.monotonic_ns()
        capture = self.capture
        if capture is None:
            # Nothing was asked, so nothing after this could be told apart from an answer.
            self.close()
        elif capture.chunked:
            self._keep(capture, data, now_ns)
        else:
            self._now = now_ns
            self._parse(capture, data)

    def _keep(self, capture: Capture, data: bytes, now_ns: int) -> None:
        content = capture.content
        content += data
        capture.stamps.append(now_ns)
        capture.ends.append(len(content))
        if _EVENT in data:
            capture.progress_ns = now_ns
        if content.endswith(_LAST_CHUNK) or content == _NO_CHUNK:
            self._finish_whole()

    def _parse(self, capture: Capture, data: bytes) -> None:
        """Reads the head, and a body that is not chunked."""
        if self._parser is None:
            return
        try:
            if self._headers_seen:
                self._parser.feed_data(data)
                return
            head, blank, rest = (self._head + data).partition(_HEAD_END)
            if not blank:
                self._head = head
                if not b"HTTP/1.".startswith(head[:7]):
                    self.end("malformed", "the response does not begin like one")
                return
            self._parser.feed_data(head + blank)
            if rest and capture.chunked:
                self._keep(capture, rest, self._now)
            elif rest and self.capture is not None:
                self._parser.feed_data(rest)
        except httptools.HttpParserError as error:
            self.end("malformed", str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        if self.capture is None:
            return
        # Without a length and without chunks the end of the connection is the end of the body.
        if error is None and self._headers_seen and not self._has_length:
            self._finish("complete", "")
        else:
            self._finish("closed", repr(error) if error else "the server closed the connection")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        named = name.lower()
        if named == b"content-length":
            self._has_length = True
        elif named == b"transfer-encoding" and self.capture is not None:
            self._has_length = True
            self.capture.chunked = value.strip().lower() == b"chunked"

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._headers_seen = True
        if self.capture is not None and self._parser is not None:
            self.capture.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser for every piece of a body that is not chunked."""
        if self.capture is not None:
            self.capture.content += body
            self.capture.stamps.append(self._now)
            self.capture.ends.append(len(self.capture.content))
            self.capture.progress_ns = self._now

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a body that is not chunked."""
        self._finish_whole()

    def _finish_whole(self) -> None:
        reusable = self._parser is not None and self._parser.should_keep_alive()
        self._finish("complete", "")
        if not reusable:
            self.close()

    def _finish(self, ending: Ending, detail: str) -> None:
        capture, self.capture = self.capture, None
        if capture is None:
            return
        capture.ending, capture.detail = ending, detail
        capture.ended_ns = self.idle_since_ns = time.monotonic_ns()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class ConnectionPool:
    """Connections to one server."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._tls = ssl.create_default_context() if address.tls else None

    @property
    def busy(self) -> frozenset[Connection]:
        """Connections with an exchange in progress, or about to have one."""
        return frozenset(self._busy)

    async def acquire(self) -> Connection:
        """An idle connection, or a new one.

        Raises:
            OSError: No connection could be made, or not in time.
        """
        oldest_ns = time.monotonic_ns() - _IDLE_LIMIT_NS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since_ns > oldest_ns:
                break
            connection.close()
        else:
            connection = await self._connect()
        self._busy.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        """Takes a connection back."""
        self._busy.discard(connection)
        if connection.usable:
            self._idle.append(connection)

    def close(self) -> None:
        """Drops all connections."""
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        address = self._address
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                _, connection = await loop.create_connection(
                    Connection, address.host, address.port, ssl=self._tls
                )
        except TimeoutError as error:
            raise OSError(f"no connection within {_CONNECT_LIMIT_S:g} s") from error
        return connection

"""Guards at the edge of HTTP: limits on headers and on reading ahead, headers of every answer."""

import asyncio
from typing import Any, Final

import h11
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["SECURITY_HEADERS", "SecurityHeaders", "guarded_protocol"]

_LEAST_READ_BYTES: Final = 64 * 1024
_MOST_READ_BYTES: Final = 256 * 1024
_READ_TOGETHER_BYTES: Final = 1024 * 1024

SECURITY_HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer. Scripts are not allowed at all: the pages have none."""


def guarded_protocol(header_timeout_s: float) -> type[asyncio.Protocol]:
    """A uvicorn protocol that drops a connection whose request headers take too long.

    uvicorn itself waits for ever on a connection that sends half a request line. The clock runs
    from the opening of the connection, and for later requests from their first byte.

    All connections read into one buffer, and none reads again before the application took what
    came. Left alone, each of two hundred uploads that wait for the disk would hold half a MiB; the
    more connections are open, the less is read at once.
    """
    # One thread reads, and what it read is copied before the next connection has its turn.
    read_into = memoryview(bytearray(_MOST_READ_BYTES))
    connections = 0

    class GuardedProtocol(H11Protocol, asyncio.BufferedProtocol):
        _late: asyncio.TimerHandle | None = None

        def get_buffer(self, sizehint: int) -> memoryview:
            del sizehint
            share = _READ_TOGETHER_BYTES // max(1, connections)
            return read_into[: max(_LEAST_READ_BYTES, min(_MOST_READ_BYTES, share))]

        def buffer_updated(self, nbytes: int) -> None:
            self.data_received(bytes(read_into[:nbytes]))

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            nonlocal connections
            connections += 1
            super().connection_made(transport)
            self._start_clock()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and self.cycle.body:
                # uvicorn reads on when the application asks for more, and when it has answered.
                self.flow.pause_reading()
            if self.conn.their_state is not h11.IDLE:
                self._stop_clock()
            elif self._late is None:
                self._start_clock()

        def connection_lost(self, exc: Exception | None) -> None:
            nonlocal connections
            connections -= 1
            self._stop_clock()
            super().connection_lost(exc)

        def _start_clock(self) -> None:
            self._late = self.loop.call_later(header_timeout_s, self._give_up)

        def _stop_clock(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _give_up(self) -> None:
            if self.conn.their_state is h11.IDLE:
                self.transport.abort()

    return GuardedProtocol


class SecurityHeaders:
    """ASGI middleware that adds `SECURITY_HEADERS` and refuses oversized request headers."""

    def __init__(self, app: ASGIApp, *, max_header_bytes: int) -> None:
        self._app = app
        self._max_header_bytes = max_header_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection or request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        size = sum(len(name) + len(value) for name, value in _headers(scope))
        if size > self._max_header_bytes:
            await _refuse_headers(send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    found: Any = scope["headers"]
    return list(found)


async def _refuse_headers(send: Send) -> None:
    body = b"The request headers are too large. Send fewer or shorter ones.\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 431, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Reads on when an answer is given before the request body was read.

A connection that is closed while the sender still sends is reset, and the sender then often loses
the answer. So a refused body is read and forgotten for a while, within bounds, before the answer
goes out; where it does not end within the bounds, the connection is closed.
"""

import asyncio
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["UnreadBodies"]

_BYTES: Final = 64 * 1024 * 1024
_TOTAL_S: Final = 10.0
_IDLE_S: Final = 1.0
_TOO_SLOW: Final = 408


class UnreadBodies:
    """ASGI middleware around everything that answers requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(Headers(scope=scope), receive)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and not body.ended:
                if message["status"] != _TOO_SLOW:
                    await body.drain()
                if not body.ended:
                    MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self._app(scope, body.receive, answer)


class _Body:
    """Knows whether the body of one request was read to its end."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        self._receive = receive
        announced = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self.ended = not announced
        # A sender that waits for permission has sent nothing and will not be reset.
        self._waits = "100-continue" in headers.get("expect", "").lower()

    async def receive(self) -> Message:
        """The next message of the request."""
        message = await self._receive()
        self._waits = False
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.ended = True
        return message

    async def drain(self) -> None:
        """Read and forget the rest, within the bounds."""
        left = 0 if self._waits else _BYTES
        try:
            async with asyncio.timeout(_TOTAL_S):
                while left > 0 and not self.ended:
                    async with asyncio.timeout(_IDLE_S):
                        message = await self.receive()
                    piece: Any = message.get("body", b"")
                    left -= len(piece)
        except TimeoutError:
            return

"""Entity tags: an answer that the client has already is not sent again.

The tag of a page or a JSON answer is the digest of its bytes, so it changes exactly when they do.
"""

import hashlib
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["EntityTags"]

_OK: Final = 200
_NOT_MODIFIED: Final = 304
_DROPPED: Final = ("content-length", "content-type", "content-disposition")


class EntityTags:
    """ASGI middleware around answers to GET and HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("if-none-match")
        await self._app(scope, receive, _Answer(wanted, send).take)


class _Answer:
    """Holds the start of an answer back until its tag is known."""

    def __init__(self, wanted: str | None, send: Send) -> None:
        self._wanted = wanted
        self._send = send
        self._start: Message | None = None
        self._ended = False

    async def take(self, message: Message) -> None:
        """Pass a message of the answer on, or hold it back."""
        if self._ended:
            return
        if message["type"] == "http.response.start":
            if message["status"] == _OK:
                self._start = message
            else:
                await self._send(message)
            return
        if self._start is not None:
            start, self._start = self._start, None
            headers = MutableHeaders(scope=start)
            # An answer in pieces is a download, which says its own tag.
            if "etag" not in headers and not message.get("more_body", False):
                body: Any = message.get("body", b"")
                headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            if self._has(headers.get("etag")):
                start["status"] = _NOT_MODIFIED
                for name in _DROPPED:
                    if name in headers:
                        del headers[name]
                self._ended = True
                await self._send(start)
                await self._send({"type": "http.response.body", "body": b""})
                return
            await self._send(start)
        await self._send(message)

    def _has(self, tag: str | None) -> bool:
        if self._wanted is None or tag is None:
            return False
        given = {each.strip().removeprefix("W/") for each in self._wanted.split(",")}
        return tag in given or "*" in given

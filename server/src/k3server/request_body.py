"""Reads request bodies: bounded in size and time, JSON strictly."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Final, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from k3bundle.canonical import StrictJsonError, parse_strict
from k3bundle.record import Record
from k3server.complaint import invalid_request
from k3server.errors import Problem, PublicError
from k3server.settings import Settings

__all__ = ["content_length", "pieces_of", "read_record"]

_MOST_DIGITS: Final = 18

R = TypeVar("R", bound=Record)


def content_length(request: Request, *, limit: int, what: str) -> int:
    """The announced size of the body in bytes.

    Raises:
        PublicError: It is missing (411), not a number (400) or above `limit` (413).
    """
    text = request.headers.get("content-length")
    if text is None:
        raise PublicError(
            Problem(
                411,
                "Content-Length is required",
                f"Expected a Content-Length header with the size of the {what}, found none. "
                "Send the body with its length, not chunked.",
            )
        )
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        why = f"Expected a number in Content-Length, found {text[:40]!a}. Send the bytes' number."
        raise PublicError(Problem(400, "Content-Length is not a number", why))
    size = int(text)
    if size > limit:
        raise PublicError(
            Problem(
                413,
                "The body is too large",
                f"Expected a {what} of at most {limit} bytes, found {size} announced. "
                "Ask the registry's operator to raise the limit if it is right.",
            )
        )
    return size


async def pieces_of(request: Request, settings: Settings, *, size: int) -> AsyncGenerator[bytes]:
    """The body in pieces.

    Args:
        request: The request.
        settings: Time limits.
        size: The announced size in bytes.

    Raises:
        PublicError: The sender paused too long or was too slow (408), went away (400), or the
            body has not the announced size (400).
    """
    started = time.monotonic()
    received = 0
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(settings.body_idle_timeout_s):
                piece = await anext(stream, None)
        except TimeoutError:
            raise _too_slow(f"found none for {settings.body_idle_timeout_s:g} s") from None
        except ClientDisconnect:
            why = f"Expected {size} bytes, found that the sender went away after {received}."
            raise PublicError(Problem(400, "The body was cut", f"{why} Send it again.")) from None
        if piece is None:
            break
        received += len(piece)
        if received > size:
            break
        elapsed = time.monotonic() - started
        due = settings.minimum_upload_bytes_per_s * elapsed
        if elapsed > settings.upload_grace_s and received < min(due, size):
            raise _too_slow(f"found {received} bytes in {elapsed:.0f} s")
        yield piece
    if received != size:
        why = f"Expected {size} bytes as announced, found {received}. Send it again."
        raise PublicError(Problem(400, "The body has another size", why))


async def read_record(request: Request, settings: Settings, record: type[R]) -> R:
    """Read a JSON body as a record.

    Raises:
        PublicError: The body is missing its length, too large, too slow, not strict JSON (400),
            or not such a record (422).
    """
    size = content_length(request, limit=settings.max_json_bytes, what="JSON body")
    data = b"".join([piece async for piece in pieces_of(request, settings, size=size)])
    try:
        parse_strict(data)
    except StrictJsonError as error:
        why = f"{ascii(error.where)[1:-1][:200]}: {error.why} Send one JSON object in UTF-8."
        raise PublicError(Problem(400, "The body is not strict JSON", why)) from None
    try:
        return record.model_validate_json(data)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False, include_context=False)) from None


def _too_slow(found: str) -> PublicError:
    return PublicError(
        Problem(
            408,
            "The body came too slowly",
            f"Expected the next bytes of the body, {found}. "
            "Send it again over a steadier connection.",
            headers={"Connection": "close"},
        )
    )

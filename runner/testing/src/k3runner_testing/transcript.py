"""A server that says the same bytes to everybody: framing, cuts and pauses are the script's.

What a well-behaved server library cannot do, this can: end in the middle of a character, skip the
blank after a colon, close without a last chunk, or say nothing at all.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

__all__ = ["HEAD", "Step", "TranscriptServer", "chunk", "event"]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Head of a chunked stream."""
Step = bytes | float | Literal["close", "silence"]
"""Bytes to send, seconds to wait, the end of the connection, or to say nothing until it ends."""


def chunk(content: bytes) -> bytes:
    """One HTTP chunk; an empty one ends the body."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(text: str) -> bytes:
    """One HTTP chunk with one event."""
    return chunk(f"data: {text}\n\n".encode())


@dataclass
class TranscriptServer:
    """Serves a script on loopback. Use as an asynchronous context manager; gives its base URL."""

    script: Sequence[Step]
    """What every request is answered with."""
    requests: int = 0
    """Requests so far."""

    async def __aenter__(self) -> str:
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._read_request(reader):
                self.requests += 1
                for step in self.script:
                    if step == "close":
                        writer.close()
                        return
                    if step == "silence":
                        await reader.read()
                        return
                    if isinstance(step, float):
                        await asyncio.sleep(step)
                    elif isinstance(step, bytes):
                        writer.write(step)
                        await writer.drain()

    async def _read_request(self, reader: asyncio.StreamReader) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(line for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        return True

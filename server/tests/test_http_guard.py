"""Slow and oversized requests against a real server."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from k3bundle.canonical import sha256_hex
from k3server.http_guard import guarded_protocol
from k3server_testing.process import RegistryProcess

CONTENT = b"x" * 3_000_000
DIGEST = sha256_hex(CONTENT)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("data")) as registry:
        yield registry


def seconds_until_closed(server: RegistryProcess, first: bytes, drip: bytes) -> float:
    """Send `first`, then `drip` again and again, until the server hangs up."""
    started = time.monotonic()
    with server.connect() as connection:
        connection.settimeout(0.5)
        try:
            connection.sendall(first)
            while time.monotonic() - started < 30:
                try:
                    if connection.recv(4096) == b"":
                        break
                except TimeoutError:
                    connection.sendall(drip)
        except ConnectionError:
            pass
    return time.monotonic() - started


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", b"T"),
    ],
    ids=["silent", "dripping", "second request"],
)
def test_headers_that_never_end_close_the_connection(
    server: RegistryProcess, first: bytes, drip: bytes
) -> None:
    taken = seconds_until_closed(server, first, drip)
    assert 3 < taken < 15


def test_oversized_headers_are_refused(server: RegistryProcess) -> None:
    with server.connect() as connection:
        lines = b"".join(b"X-%d: %s\r\n" % (n, b"y" * 900) for n in range(30))
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        status = connection.recv(64).split()[1]
    assert status in {b"400", b"431"}


def answer_to(server: RegistryProcess, head: str, body: bytes) -> bytes:
    with server.connect() as connection:
        connection.sendall(head.encode())
        connection.sendall(body)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_refused_upload_still_gets_its_answer(server: RegistryProcess) -> None:
    head = f"PUT /api/v1/blobs/short HTTP/1.1\r\nHost: x\r\nContent-Length: {len(CONTENT)}\r\n"
    answer = answer_to(server, head + "Connection: close\r\n\r\n", CONTENT)
    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b"64 lower-case hexadecimal digits" in answer


def test_upload_that_stops_is_408_and_leaves_nothing(server: RegistryProcess) -> None:
    head = f"PUT /api/v1/blobs/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(CONTENT)}\r\n"
    answer = answer_to(server, head + "\r\n", CONTENT[:100_000])
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"found none for 10 s" in answer
    with server.client() as client:
        assert client.head(f"/api/v1/blobs/{DIGEST}").status_code == 404


def test_expect_100_is_not_asked_for_a_body_that_is_refused(server: RegistryProcess) -> None:
    head = (
        "PUT /api/v1/blobs/short HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(CONTENT)}\r\n\r\n"
    )
    answer = answer_to(server, head, b"")
    assert answer.startswith(b"HTTP/1.1 422 ")


def test_sender_that_goes_away_leaves_nothing(server: RegistryProcess) -> None:
    head = f"PUT /api/v1/blobs/{DIGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(CONTENT)}\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode() + b"\r\n" + CONTENT[:2_000_000])
    with server.client() as client:
        assert client.head(f"/api/v1/blobs/{DIGEST}").status_code == 404
        assert client.put(f"/api/v1/blobs/{DIGEST}", content=CONTENT).status_code == 201


def test_static_path_never_leaves_the_folder(server: RegistryProcess) -> None:
    head = "GET /static/../../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = answer_to(server, head, b"")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in answer


class Wire(asyncio.Transport):
    """Notes whether its protocol wants to read."""

    reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        del data

    def close(self) -> None:
        self.reading = False


def test_more_connections_read_less_at_once() -> None:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send

    async def sizes() -> list[int]:
        config = Config(application, ws="none", lifespan="off", log_config=None)
        config.load()
        make: Any = guarded_protocol(5.0)
        made, found = [], []
        for _ in range(200):
            protocol = make(config=config, server_state=ServerState(), app_state={})
            protocol.connection_made(Wire())
            made.append(protocol)
            found.append(len(protocol.get_buffer(-1)))
        for protocol in made:
            protocol.connection_lost(None)
        return found

    found = asyncio.run(sizes())
    assert (found[0], found[-1]) == (256 * 1024, 64 * 1024)
    assert found == sorted(found, reverse=True)


async def test_connection_reads_no_further_than_the_application() -> None:
    received: list[int] = []
    turn = asyncio.Semaphore(0)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        for _ in range(2):
            await turn.acquire()
            received.append(len((await receive())["body"]))
        await turn.acquire()
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = Config(application, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    make: Any = guarded_protocol(5.0)
    protocol = make(config=config, server_state=state, app_state={})
    wire = Wire()
    protocol.connection_made(wire)

    async def arrive(sent: bytes) -> None:
        room = protocol.get_buffer(-1)
        assert len(room) == 256 * 1024
        room[: len(sent)] = sent
        protocol.buffer_updated(len(sent))
        await asyncio.sleep(0.01)

    await arrive(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 1000)
    assert (wire.reading, received) == (False, [])
    turn.release()
    await asyncio.sleep(0.01)
    assert (wire.reading, received) == (True, [1000])
    await arrive(b"x" * 64 * 1024)
    assert (wire.reading, received) == (False, [1000])
    turn.release()
    await asyncio.sleep(0.01)
    assert (wire.reading, received) == (True, [1000, 64 * 1024])
    turn.release()
    await asyncio.gather(*state.tasks)
    protocol.connection_lost(None)

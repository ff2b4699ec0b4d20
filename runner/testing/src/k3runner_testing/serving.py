"""Serves fakes on loopback inside a test's own event loop."""

from typing import Any, Protocol

from aiohttp.test_utils import TestServer

from k3runner_testing.behaviour import Behaviour
from k3runner_testing.fake_server import FakeServer, create_app

__all__ = ["FakeServers", "ServeFake"]


class ServeFake(Protocol):
    """Starts a fake server; keyword arguments are fields of `Behaviour`."""

    async def __call__(self, **behaviour: Any) -> tuple[FakeServer, str]:
        """Returns the server's state and its base URL."""
        ...


class FakeServers:
    """Fake servers that are closed together."""

    def __init__(self) -> None:
        self._running: list[TestServer] = []

    async def serve(self, **behaviour: Any) -> tuple[FakeServer, str]:
        """Starts one more; see `ServeFake`."""
        fake = FakeServer(Behaviour(**behaviour))
        server = TestServer(create_app(fake), host="127.0.0.1")
        await server.start_server()
        self._running.append(server)
        return fake, str(server.make_url("")).rstrip("/")

    async def close(self) -> None:
        """Closes all."""
        for server in self._running:
            await server.close()

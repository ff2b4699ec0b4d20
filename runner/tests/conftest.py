"""Fixtures shared by the runner's tests."""

from collections.abc import AsyncIterator

import pytest

from k3runner_testing.serving import FakeServers, ServeFake


@pytest.fixture
async def serve_fake() -> AsyncIterator[ServeFake]:
    """Serves fakes on loopback; call it with fields of `Behaviour`."""
    servers = FakeServers()
    yield servers.serve
    await servers.close()

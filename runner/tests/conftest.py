"""Fixtures shared by the runner's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import k3runner
from k3runner.telemetry.nvml import open_gpus
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml
from k3runner_testing.serving import FakeServers, ServeFake


@pytest.fixture
async def serve_fake() -> AsyncIterator[ServeFake]:
    """Serves fakes on loopback; call it with fields of `Behaviour`."""
    servers = FakeServers()
    yield servers.serve
    await servers.close()


@pytest.fixture(autouse=True, scope="session")
def small_guard() -> Iterator[None]:
    """Guards only a part of what it should, so that runs of fake engines stay fast."""
    part = Path(k3runner.__file__).parent / "separation"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("k3runner.run_watch.referee_files", lambda: (part,))
        patch.setattr("k3runner.run_watch.subject_files", lambda _config: ())
        yield


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this machine one with a GPU."""
    for module in ("node_facts", "run_watch"):
        monkeypatch.setattr(
            f"k3runner.{module}.open_gpus", lambda visible: open_gpus(visible, FakeNvml(FakeGpu()))
        )

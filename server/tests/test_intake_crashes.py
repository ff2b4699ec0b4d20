"""kill -9 of a real registry at every point of intake: sending again ends in one submission."""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from k3bundle.canonical import sha256_hex
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3server_testing.crashing_registry import POINTS, VERIFIER_PID_VARIABLE
from k3server_testing.process import RegistryProcess

ARCHIVE = sealed_archive()
DIGEST = sha256_hex(ARCHIVE)


def send(client: httpx.Client) -> httpx.Response:
    """What a contributor does, and does again after a crash."""
    client.put(f"/api/v1/blobs/{DIGEST}", content=ARCHIVE).raise_for_status()
    claim = {"blob_sha256": DIGEST, **EXAMPLE_CHANGE.model_dump()}
    return client.post("/api/v1/submissions", json=claim)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_sending_again_makes_one_submission(data: Path) -> None:
    with RegistryProcess(data) as registry, registry.client() as client:
        assert list((data / "blobs" / "incoming").iterdir()) == []
        answer = send(client)
        assert answer.status_code in {200, 201}, answer.text
        body = answer.json()
        change = f"{EXAMPLE_CHANGE.repository}/pulls/{EXAMPLE_CHANGE.pull_request}"
        listed = client.get(f"/api/v1/repositories/{change}").json()["submissions"]
        assert listed == [body]
        url = f"/api/v1/submissions/{body['submission_id']}/bundle"
        assert client.get(url).content == ARCHIVE
    stored = [path.name for path in (data / "blobs" / "cas").rglob("*") if path.is_file()]
    assert stored == [DIGEST]
    with closing(sqlite3.connect(data / "registry.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("point", POINTS)
def test_kill_at_point_then_send_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    pid_file = tmp_path / "verifier.pid"
    monkeypatch.setenv(VERIFIER_PID_VARIABLE, str(pid_file))
    data = tmp_path / "data"
    command = (sys.executable, "-m", "k3server_testing.crashing_registry", point)
    with RegistryProcess(data, command=command) as registry:
        with registry.client() as client, pytest.raises(httpx.TransportError):
            send(client)
        assert registry.wait() == -signal.SIGKILL
    if point == "verifier-running":
        verifier = int(pid_file.read_text())
        wait_until(lambda: not Path(f"/proc/{verifier}/cmdline").exists() or is_zombie(verifier))
    assert_sending_again_makes_one_submission(data)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_kill_in_the_middle_of_an_upload_then_send_again(tmp_path: Path) -> None:
    incoming = tmp_path / "blobs" / "incoming"
    large = os.urandom(8_000_000)
    digest = sha256_hex(large)
    with RegistryProcess(tmp_path) as registry, registry.connect() as connection:
        head = f"PUT /api/v1/blobs/{digest} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n"
        connection.sendall(head.encode() + b"\r\n" + large[:5_000_000])
        wait_until(lambda: sum(p.stat().st_size for p in incoming.iterdir()) > 3_000_000)
        registry.kill()
    assert len(list(incoming.iterdir())) == 1
    with RegistryProcess(tmp_path) as registry, registry.client() as client:
        assert list(incoming.iterdir()) == []
        assert client.head(f"/api/v1/blobs/{digest}").status_code == 404
        assert client.put(f"/api/v1/blobs/{digest}", content=large).status_code == 201
        assert client.put(f"/api/v1/blobs/{digest}", content=large).status_code == 200

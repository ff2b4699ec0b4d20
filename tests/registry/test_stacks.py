"""The same tests on the embedded registry and on the full one of `make serve-full`."""

import base64
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3house.services import caddy_file
from k3runner.submit import submit_bundle
from k3server.http_guard import SECURITY_HEADERS
from k3server_testing.process import RegistryProcess
from tests.repository import ROOT

PART_BYTES = 16 * 1024 * 1024
LARGE = bytes(range(251)) * (2 * PART_BYTES // 251 + 1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="k3-embedded-"))
    with RegistryProcess(folder) as registry:
        yield registry.url
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def full() -> Iterator[str]:
    """PostgreSQL, object store, registry and proxy, as the command starts them; or what runs."""
    if running := os.environ.get("K3EVAL_TEST_REGISTRY"):
        yield running
        return
    folder = Path(tempfile.mkdtemp(prefix="k3-full-"))
    # PostgreSQL's own user must reach its data.
    folder.chmod(0o755)
    command = [sys.executable, str(ROOT / "tools" / "house.py"), "serve-full"]
    process = subprocess.Popen(
        [*command, f"--registry-port={free_port()}", f"--data={folder}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready "):
        process.kill()
        raise AssertionError(process.communicate()[1])
    yield line.split()[1]
    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=60)
    shutil.rmtree(folder)
    assert "Traceback" not in words


@pytest.fixture(params=["embedded", "full"])
def address(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120) as client:
        yield client


def test_pages_answer_with_every_security_header(client: httpx.Client, address: str) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert address in answer.text
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


async def test_the_runners_client_submits_once_and_finds_it_again(
    client: httpx.Client, address: str, tmp_path: Path
) -> None:
    bundle = tmp_path / "good.k3b"
    bundle.write_bytes(sealed_archive())
    first = await submit_bundle(bundle, address, EXAMPLE_CHANGE, say=lambda _: None)
    second = await submit_bundle(bundle, address, EXAMPLE_CHANGE, say=lambda _: None)
    assert (first.already_there, second.already_there) == (False, True)
    assert first.url == second.url == f"{address}/submissions/{first.submission_id}"
    assert client.get(f"/submissions/{first.submission_id}").status_code == 200
    download = client.get(
        f"/api/v1/submissions/{first.submission_id}/bundle", follow_redirects=True
    )
    assert download.content == bundle.read_bytes()
    assert "attachment" in download.headers["content-disposition"]


def test_large_archive_comes_in_parts_and_goes_on_where_it_stopped(client: httpx.Client) -> None:
    digest = hashlib.sha256(LARGE).hexdigest()
    asked = {"blob_sha256": digest, "size_bytes": len(LARGE)}
    upload = client.post("/api/v1/uploads", json=asked).json()
    assert (upload["part_size_bytes"], upload["part_count"]) == (PART_BYTES, 3)
    send_part(client, upload["upload_id"], 3)
    assert client.post(f"/api/v1/uploads/{upload['upload_id']}/complete").status_code == 409
    again = client.post("/api/v1/uploads", json=asked).json()
    assert (again["upload_id"], again["received"]) == (upload["upload_id"], [3])
    for number in (1, 2):
        send_part(client, upload["upload_id"], number)
    done = client.post(f"/api/v1/uploads/{upload['upload_id']}/complete")
    assert done.status_code == 201
    assert client.head(f"/api/v1/blobs/{digest}").headers["content-length"] == str(len(LARGE))


def send_part(client: httpx.Client, upload: str, number: int) -> None:
    part = LARGE[(number - 1) * PART_BYTES : number * PART_BYTES]
    encoded = base64.b64encode(hashlib.sha256(part).digest()).decode()
    answer = client.put(
        f"/api/v1/uploads/{upload}/parts/{number}",
        content=part,
        headers={"Content-Digest": f"sha-256=:{encoded}:"},
    )
    assert answer.status_code == 201, answer.text


def test_bad_requests_are_problems_and_not_errors(client: httpx.Client) -> None:
    url = f"/api/v1/blobs/{'0' * 64}"
    answers = [
        client.put(url, content=b"other bytes"),
        client.put(url, content=iter([b"without a length"])),
        client.put("/api/v1/blobs/short", content=b"x"),
        client.post("/api/v1/submissions", content=b'{"a":1,"a":2}'),
        client.get("/api/v1/submissions/" + "0" * 64),
    ]
    assert [answer.status_code for answer in answers] == [422, 411, 422, 400, 404]
    assert {answer.headers["content-type"] for answer in answers} == {"application/problem+json"}


def test_proxy_configuration_names_both_ports_and_loopback_only() -> None:
    text = caddy_file(1234, 5678)
    assert "http://:1234 {" in text
    assert "reverse_proxy 127.0.0.1:5678" in text
    assert "bind 127.0.0.1" in text

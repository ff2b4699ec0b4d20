"""The registry of `make eval`: ours is used again, another program's port is refused."""

import fcntl
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from k3house.problem import HouseError
from k3house.registry import check_port, check_registry, registry_answers


@contextmanager
def _answering(body: bytes) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_registry_is_recognised_by_its_description() -> None:
    with _answering(json.dumps({"info": {"title": "k3-eval registry"}}).encode()) as port:
        assert registry_answers(port)


def test_the_real_registry_describes_itself_so() -> None:
    from k3server_testing.registry import Registry  # noqa: PLC0415

    assert Registry().app().title == "k3-eval registry"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"info": {"title": "another"}}'])
def test_another_program_is_not_taken_for_a_registry(body: bytes) -> None:
    with _answering(body) as port:
        assert not registry_answers(port)
        with pytest.raises(HouseError, match=f"another port: REGISTRY_PORT={port + 1}") as caught:
            check_port(port)
    assert caught.value.exit_code == 5


def test_a_listener_that_does_not_speak_http_is_not_taken_for_a_registry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        assert not registry_answers(port)
        check_port(port)


def test_our_registry_at_work_is_used_again(tmp_path: Path) -> None:
    with (
        _answering(json.dumps({"info": {"title": "k3-eval registry"}}).encode()) as port,
        (tmp_path / "lock").open("wb") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert check_registry(port, tmp_path)


def test_a_registry_with_other_data_is_not_sent_evidence(tmp_path: Path) -> None:
    with _answering(json.dumps({"info": {"title": "k3-eval registry"}}).encode()) as port:
        for data in (tmp_path, tmp_path / "none"):
            with pytest.raises(HouseError, match="does not keep its data in"):
                check_registry(port, data)
        (tmp_path / "lock").touch()
        with pytest.raises(HouseError, match=f"REGISTRY_PORT={port + 1}"):
            check_registry(port, tmp_path)


def test_a_free_port_is_left_to_a_new_registry(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not check_registry(port, tmp_path)

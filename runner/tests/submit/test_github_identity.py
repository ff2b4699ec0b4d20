"""Identity tokens of Actions, asked for one archive at one registry; tokens that stay secret."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from k3runner.errors import MachineError, UsageError
from k3runner.github_identity import audience_of, checked_account, identity_token
from k3runner.settings import resolve_token

REGISTRY = "https://registry.example"
DIGEST = "ab" * 32
SECRET = "runtime-secret"


class Actions(BaseHTTPRequestHandler):
    """What a job of Actions can ask for a token."""

    seen: list[tuple[str, str]]
    answer: bytes

    def do_GET(self) -> None:
        audience = parse_qs(urlsplit(self.path).query)["audience"][0]
        self.seen.append((audience, self.headers["Authorization"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def actions() -> Iterator[dict[str, str]]:
    Actions.seen, Actions.answer = [], json.dumps({"value": "a.b.c"}).encode()
    with HTTPServer(("127.0.0.1", 0), Actions) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"http://127.0.0.1:{server.server_port}/?api=2",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": SECRET,
        }
        server.shutdown()
        thread.join()


def test_token_is_asked_for_this_archive_at_this_registry(actions: dict[str, str]) -> None:
    assert identity_token(REGISTRY, DIGEST, actions) == "a.b.c"
    audience = f"{REGISTRY}/api/v1/blobs/{DIGEST}"
    assert audience_of(REGISTRY, DIGEST) == audience
    assert Actions.seen == [(audience, f"Bearer {SECRET}")]


def test_other_places_and_other_answers_are_sentences(actions: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="id-token: write"):
        identity_token(REGISTRY, DIGEST, {})
    for answer in (b"{}", b"[]", b"no json", json.dumps({"value": 7}).encode()):
        Actions.answer = answer
        with pytest.raises(MachineError, match="gave no identity token"):
            identity_token(REGISTRY, DIGEST, actions)


@pytest.mark.parametrize("name", ["octo--cat-", "-x", "a/b", "", "a" * 40, "é"])
def test_names_that_no_account_has_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--github-account"):
        checked_account(name)
    assert checked_account("octo-cat") == "octo-cat"
    assert checked_account(None) is None


def test_token_comes_from_the_file_then_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("k3r_from_the_file\n")
    environ = {"K3EVAL_TOKEN": "k3r_from_outside"}
    assert resolve_token(file, environ, REGISTRY) == "k3r_from_the_file"
    assert resolve_token(None, environ, REGISTRY) == "k3r_from_outside"
    assert resolve_token(None, {}, REGISTRY) is None


def test_token_is_never_sent_where_others_can_read_it_nor_shown(tmp_path: Path) -> None:
    environ = {"K3EVAL_TOKEN": "k3r_from_outside"}
    for own in ("http://127.0.0.1:8765", "http://localhost", "http://[::1]:1"):
        assert resolve_token(None, environ, own) == "k3r_from_outside"
    with pytest.raises(UsageError, match="would be readable on its way to"):
        resolve_token(None, environ, "http://registry.example")
    file = tmp_path / "token"
    for text in ("", "two secret words", "line\nline-secret", "short"):
        file.write_text(text)
        with pytest.raises(UsageError) as caught:
            resolve_token(file, {}, REGISTRY)
        assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match="No token can be read from"):
        resolve_token(tmp_path / "absent", {}, REGISTRY)

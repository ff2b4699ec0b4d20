"""Deliveries: who sent them, and which pull request they hint at; recorded payloads."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from k3server.forge.webhook import Hint, WebhookError, hint_of, is_signed

DELIVERIES = json.loads((Path(__file__).parent / "deliveries.json").read_text("utf-8"))[
    "deliveries"
]


def payload(event: str, action: str) -> dict[str, Any]:
    found = next(
        one["payload"]
        for one in DELIVERIES
        if one["event"] == event and one["payload"].get("action") == action
    )
    copy: dict[str, Any] = json.loads(json.dumps(found))
    return copy


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_the_published_example_of_a_signature_is_accepted() -> None:
    secret, text = b"It's a Secret to Everybody", b"Hello, World!"
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed(secret, text, signature)


@pytest.mark.parametrize(
    "signature",
    [None, "", "sha256=", "sha1=757107ea", "sha256=\N{SNOWMAN}", "sha256=" + "0" * 64],
)
def test_any_other_signature_is_refused_without_an_error(signature: str | None) -> None:
    assert not is_signed(b"secret", b"text", signature)


def test_a_secret_that_is_not_set_accepts_nobody() -> None:
    signature = "sha256=" + hmac.new(b"", b"text", hashlib.sha256).hexdigest()
    assert not is_signed(b"", b"text", signature)


def test_a_changed_byte_is_refused() -> None:
    signature = "sha256=" + hmac.new(b"secret", b"text", hashlib.sha256).hexdigest()
    assert is_signed(b"secret", b"text", signature)
    assert not is_signed(b"secret", b"texT", signature)


@pytest.mark.parametrize("action", ["opened", "synchronize", "closed"])
def test_recorded_pull_requests_hint_at_their_number(action: str) -> None:
    found = payload("pull_request", action)
    hint = hint_of("pull_request", body(found))
    assert hint == Hint(found["repository"]["full_name"], found["pull_request"]["number"])


def test_recorded_labels_and_pings_hint_at_nothing() -> None:
    assert hint_of("pull_request", body(payload("pull_request", "labeled"))) is None
    assert hint_of("ping", b"{}") is None
    assert hint_of("push", b"not even JSON") is None


def test_a_comment_on_an_issue_is_none_on_a_pull_request() -> None:
    found = payload("issue_comment", "created")
    assert "pull_request" not in found["issue"]
    assert hint_of("issue_comment", body(found)) is None


def test_a_comment_on_a_pull_request_has_author_and_text() -> None:
    found = payload("issue_comment", "created")
    found["issue"]["pull_request"] = {"url": "https://example.org"}
    hint = hint_of("issue_comment", body(found))
    assert hint is not None
    assert hint.comment == found["comment"]["body"]
    assert hint.author == found["comment"]["user"]["login"]
    assert hint.pull_request == found["issue"]["number"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("repository", "full_name"), 7, "repository.full_name"),
        (("pull_request", "number"), "7", "pull_request.number"),
        (("pull_request", "number"), True, "pull_request.number"),
        (("pull_request", "number"), -1, "pull_request.number"),
        (("action",), None, "action"),
    ],
)
def test_what_an_event_lacks_is_named(path: tuple[str, ...], value: object, words: str) -> None:
    found = payload("pull_request", "opened")
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(WebhookError, match=words):
        hint_of("pull_request", body(found))


@pytest.mark.parametrize("content", [b"", b"[", b'{"action":1,"action":2}', b"[]", b'"x"'])
def test_what_is_no_delivery_is_a_sentence(content: bytes) -> None:
    with pytest.raises(WebhookError):
        hint_of("pull_request", content)

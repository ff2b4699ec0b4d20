"""What counts as a secret in a file, and what only looks a little like one."""

import pytest

from k3bundle.secret_scan import secrets_in

WORD = b"Ab9" * 20


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Hugging Face token", b"hf_" + WORD),
        ("GitHub token", b"ghp_" + WORD),
        ("GitHub token", b"github_pat_" + WORD),
        ("AWS access key", b"AKIA" + b"Z" * 16),
        ("API key", b"sk-" + WORD),
        ("API key", b"-sk-" + WORD),
        ("bearer token", b"Bearer " + WORD),
        ("bearer token", b"bearer " + WORD),
        ("private key", b"-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("password in a URL", b"https://me:pass@host"),
    ],
)
def test_secret_is_found_on_its_line(kind: str, text: bytes) -> None:
    assert list(secrets_in(b"one\ntwo " + text + b" \nthree")) == [(kind, 2)]


@pytest.mark.parametrize(
    "text",
    [
        b"xsk-" + WORD,
        b"9sk-" + WORD,
        b"sk-short",
        b"nearer " + WORD,
        b"Bearer no",
        b"hf_short",
        b"https://host/a:b",
        b"",
    ],
)
def test_text_that_is_no_secret_is_left_alone(text: bytes) -> None:
    assert list(secrets_in(b"one\ntwo " + text + b" \nthree")) == []


def test_every_secret_of_a_line_is_found() -> None:
    text = b"sk-" + WORD + b" Bearer " + WORD + b"\nsk-" + WORD
    assert sorted(secrets_in(text)) == [("API key", 1), ("API key", 2), ("bearer token", 1)]

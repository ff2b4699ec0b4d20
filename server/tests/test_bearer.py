import secrets
from dataclasses import replace
from datetime import timedelta

import pytest

from k3server.account_ports import Token
from k3server.bearer import is_valid, make_token, parts_of
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
DAY = timedelta(days=1)


def made() -> tuple[str, Token]:
    return make_token(
        "lab", ["submit"], organisation=None, now=NOW, lifetime=DAY, draw_hex=secrets.token_hex
    )


def test_token_is_valid_for_its_secret_and_its_time_only() -> None:
    text, token = made()
    token_id, secret = parts_of(text) or ("", "")
    assert token_id == token.token_id
    assert secret not in str(token)
    assert is_valid(token, secret, NOW + DAY - timedelta(seconds=1))
    assert not is_valid(token, secret, NOW + DAY)
    assert not is_valid(token, secret[:-1] + ("0" if secret[-1] != "0" else "1"), NOW)
    assert not is_valid(replace(token, revoked_at=NOW), secret, NOW)


def test_tokens_differ() -> None:
    assert made()[0] != made()[0]


@pytest.mark.parametrize(
    "text",
    ["", "k3r_", "k3r_" + "0" * 16, "k3r_" + "0" * 16 + "_" + "0" * 63, "K3R_" + "0" * 81]
    + ["k3r_" + "0" * 16 + "_" + "0" * 64 + end for end in ("\n", " ", "0")],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert parts_of(text) is None

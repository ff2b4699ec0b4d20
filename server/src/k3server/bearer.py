"""API tokens as text: made once, shown once, compared in constant time. Pure."""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from k3server.account_ports import Scope, Token

__all__ = ["is_valid", "make_token", "parts_of"]

_TOKEN: Final = re.compile(r"k3r_([0-9a-f]{16})_([0-9a-f]{64})")


def make_token(
    account: str,
    scopes: Iterable[Scope],
    *,
    organisation: str | None,
    now: datetime,
    lifetime: timedelta,
    draw_hex: Callable[[int], str],
) -> tuple[str, Token]:
    """A new token.

    Args:
        account: Whom it is for.
        scopes: What it may be used for.
        organisation: Organisation of the account.
        now: The time of day.
        lifetime: How long it works.
        draw_hex: Draws this many random bytes as hexadecimal digits.

    Returns:
        The text to hand over, which is not kept, and the token to keep.
    """
    token_id, secret = draw_hex(8), draw_hex(32)
    token = Token(
        token_id=token_id,
        secret_sha256=_digest(secret),
        account=account,
        organisation=organisation,
        scopes=frozenset(scopes),
        created_at=now,
        expires_at=now + lifetime,
    )
    return f"k3r_{token_id}_{secret}", token


def parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text; None when it is none."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else (match[1], match[2])


def is_valid(token: Token, secret: str, now: datetime) -> bool:
    """Whether the secret is the token's and the token still works."""
    same = hmac.compare_digest(token.secret_sha256, _digest(secret))
    return same and token.revoked_at is None and now < token.expires_at


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Who sends a request, as GitHub Actions says it: an identity token of a workflow. Pure.

Such a token is signed by GitHub, ends after minutes, and is made for one audience, here one archive
at one registry; whoever sees it can do nothing with it but send the same archive again. It says who
sends, not whose key signed the bundle.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeGuard

import jwt

__all__ = [
    "IdentityTokenError",
    "Workflow",
    "is_identity_token",
    "key_id_of",
    "keys_of",
    "owner_of",
    "workflow_of",
]

_ALGORITHM: Final = "RS256"
"""The only one: a token that names another was made by somebody else."""
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{2,4096}\.[A-Za-z0-9_-]{2,8192}\.[A-Za-z0-9_-]{2,2048}")
_REPOSITORY: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]{0,38})/[A-Za-z0-9_.-]{1,100}")
_LEEWAY_S: Final = 60.0
_LONGEST_LIFE_S: Final = 3600.0
# The year 9999.
_LATEST_S: Final = 253_402_300_800
_SHOWN: Final = 200
_KEPT: Final = 64
_AGAIN: Final = "Ask GitHub Actions for a new token, and send it within minutes."


class IdentityTokenError(Exception):
    """The token is not believed."""

    def __init__(self, code: str, why: str, hint: str = _AGAIN) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code
        """Stable name."""
        self.why = why
        """What was expected and what was found, in a sentence."""
        self.hint = hint
        """The next step, in a sentence."""


@dataclass(frozen=True)
class Workflow:
    """A workflow that sends something."""

    repository: str
    """Repository that it runs in, in lower case."""

    @property
    def identity(self) -> str:
        """`actions:OWNER/NAME`."""
        return f"actions:{self.repository}"

    @property
    def owner(self) -> str:
        """Owner of the repository."""
        return self.repository.partition("/")[0]


def owner_of(identity: str) -> str | None:
    """GitHub account behind an identity; None where the identity names none."""
    kind, _, name = identity.partition(":")
    if kind == "github":
        return name
    return name.partition("/")[0] if kind == "actions" else None


def is_identity_token(text: str) -> bool:
    """Whether a text has the shape of such a token; an API token has another one."""
    return _SHAPE.fullmatch(text) is not None


def key_id_of(text: str) -> str:
    """Name of the key that a token says it was signed with; not yet believed.

    Raises:
        IdentityTokenError: The token cannot be read, or is signed in another way.
    """
    try:
        header = jwt.get_unverified_header(text)
    except jwt.PyJWTError:
        raise _unreadable("Expected a token that can be read, found another text.") from None
    key_id = header.get("kid")
    if header.get("alg") != _ALGORITHM or not isinstance(key_id, str):
        raise _unreadable(
            f"Expected a token signed by {_ALGORITHM} with a named key, found "
            f"{str(header.get('alg'))[:_SHOWN]!a}."
        )
    return key_id


def keys_of(document: bytes) -> Mapping[str, jwt.PyJWK]:
    """Keys that an issuer publishes, by their names.

    Raises:
        ValueError: The document is no set of keys.
    """
    try:
        found = jwt.PyJWKSet.from_json(document.decode("utf-8"))
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"no set of keys: {error}") from error
    return {
        key.key_id: key
        for key in found.keys[:_KEPT]
        if key.key_id is not None and key.key_type == "RSA"
    }


def workflow_of(
    text: str, key: jwt.PyJWK, *, issuer: str, audience: str, now: datetime
) -> Workflow:
    """Check a token, and read who sends.

    Args:
        text: The token.
        key: The issuer's key of the name that the token gives.
        issuer: Who must have made it.
        audience: What it must have been made for.
        now: The registry's clock, in UTC.

    Raises:
        IdentityTokenError: It is not believed; the code says why.
    """
    try:
        claims = jwt.decode(
            text,
            key,
            algorithms=[_ALGORITHM],
            # Told apart below, each with a code of its own and by this registry's clock.
            options={
                "verify_aud": False,
                "verify_exp": False,
                "verify_iat": False,
                "verify_iss": False,
                "verify_nbf": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except jwt.PyJWTError:
        raise IdentityTokenError(
            "identity-token-signature",
            "Expected a token that GitHub signed, found another signature.",
        ) from None
    _check_origin(claims, issuer, audience)
    _check_times(claims, now.timestamp())
    return _read(claims)


def _check_origin(claims: Mapping[str, Any], issuer: str, audience: str) -> None:
    if claims.get("iss") != issuer:
        raise IdentityTokenError(
            "identity-token-issuer",
            f"Expected a token of {issuer}, found one of {_shown(claims.get('iss'))}.",
        )
    if claims.get("aud") != audience:
        raise IdentityTokenError(
            "identity-token-audience",
            f"Expected a token for {audience}, found one for {_shown(claims.get('aud'))}.",
            "Ask for a token with that audience; `k3-eval submit --github-actions` does.",
        )


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    found = [claims.get(name) for name in ("iat", "nbf", "exp")]
    # A comparison with NaN would let everything pass, and a large integer fits no float.
    times = [float(at) for at in found if _is_time(at)]
    if len(times) != len(found):
        raise _other_claims("times iat, nbf and exp", found)
    issued, begins, ends = times
    if now > ends + _LEEWAY_S:
        raise IdentityTokenError(
            "identity-token-expired",
            f"Expected a token that works, found one that ended {now - ends:.0f} s ago.",
        )
    if now < max(issued, begins) - _LEEWAY_S:
        raise IdentityTokenError(
            "identity-token-not-yet",
            f"Expected a token that works, found one that begins in "
            f"{max(issued, begins) - now:.0f} s.",
            "Set the clocks right.",
        )
    if ends - issued > _LONGEST_LIFE_S:
        raise _other_claims("a life of an hour at most", ends - issued)


def _is_time(value: object) -> TypeGuard[int | float]:
    """Whether a claim is a time in seconds that a calendar could have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < _LATEST_S


def _read(claims: Mapping[str, Any]) -> Workflow:
    repository, owner = claims.get("repository"), claims.get("repository_owner")
    match = _REPOSITORY.fullmatch(repository) if isinstance(repository, str) else None
    if match is None or match[1] != owner:
        raise _other_claims("a repository and its owner", (repository, owner))
    return Workflow(repository=match[0].lower())


def _unreadable(why: str) -> IdentityTokenError:
    return IdentityTokenError("identity-token-unreadable", why)


def _other_claims(expected: str, found: object) -> IdentityTokenError:
    return IdentityTokenError(
        "identity-token-claims",
        f"Expected {expected} in the token, found {_shown(found)}.",
        "Send a token as GitHub Actions makes them.",
    )


def _shown(value: object) -> str:
    return ascii(value)[:_SHOWN]

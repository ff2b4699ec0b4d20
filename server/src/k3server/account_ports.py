"""What the registry needs to know who somebody is, and what operators decided."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

import jwt

__all__ = [
    "Accounts",
    "Act",
    "Action",
    "Issuer",
    "IssuerUnavailableError",
    "KeyDirectory",
    "KeysUnavailableError",
    "Moderation",
    "NoDirectoryError",
    "NoEvidenceError",
    "Scope",
    "Token",
]

Scope = Literal["submit", "claim", "moderate"]
"""What a token may be used for."""

Action = Literal[
    "quarantine", "release", "retract", "audit", "unaudit", "ban", "unban", "token", "revoke"
]
"""What an operator can decide."""


@dataclass(frozen=True)
class Token:
    """An API token as the registry keeps it: without its secret."""

    token_id: str
    """16 lower-case hexadecimal digits; the part of a token that may be shown."""
    secret_sha256: str
    """Digest of the secret. The secret is 256 random bits, so a fast digest is enough."""
    account: str
    """Whom it was made for."""
    organisation: str | None
    """Organisation of the account."""
    scopes: frozenset[Scope]
    """What it may be used for."""
    created_at: datetime
    """When it was made, in UTC."""
    expires_at: datetime
    """When it ends, in UTC."""
    revoked_at: datetime | None = None
    """When it was revoked, in UTC."""


class Accounts(Protocol):
    """API tokens."""

    def add(self, token: Token, actor: str) -> None:
        """Keep a token, and note who made it."""
        ...

    def find(self, token_id: str) -> Token | None:
        """The token with this id, whatever became of it."""
        ...

    def revoke(self, token_id: str, actor: str, at: datetime) -> bool:
        """End a token; False when there is none that works."""
        ...

    def tokens(self) -> tuple[Token, ...]:
        """Every token, the newest first."""
        ...


@dataclass(frozen=True)
class Act:
    """A decision of an operator."""

    sequence: int
    """Position, from 1."""
    at: datetime
    """When, in UTC."""
    actor: str
    """Who decided."""
    action: Action
    """What."""
    target: str
    """A submission, an identity, a key or a token."""
    reason: str
    """Why, in a sentence."""


class NoEvidenceError(Exception):
    """A decision would vouch for a submission that was taken back."""


class Moderation(Protocol):
    """Decisions of operators. Each one is kept for ever, also when it was taken back."""

    def decide(self, action: Action, target: str, *, actor: str, reason: str, at: datetime) -> None:
        """Decide about a submission, an identity or a key, in one transaction with the log.

        Raises:
            KeyError: There is no such submission, or nothing to take back.
            NoEvidenceError: An audit of a retracted submission.
        """
        ...

    def ban_of(self, *banned: str) -> str | None:
        """The reason for which one of these identities or keys is banned; None when none is."""
        ...

    def acts(self, *, limit: int, before: int | None = None) -> tuple[Act, ...]:
        """Decisions, newest first."""
        ...


class KeysUnavailableError(Exception):
    """The keys of an account cannot be asked for now."""


class NoDirectoryError(Exception):
    """There is nobody to ask for keys of accounts, and so it stays."""


class KeyDirectory(Protocol):
    """Keys that accounts publish."""

    def fingerprints(self, account: str) -> frozenset[str]:
        """Fingerprints (`SHA256:...`) of the keys of an account; empty when there is none.

        Raises:
            KeysUnavailableError: It cannot be asked.
        """
        ...


class IssuerUnavailableError(Exception):
    """The issuer of identity tokens cannot be asked for its keys now."""


class Issuer(Protocol):
    """Who makes identity tokens for workflows."""

    address: str
    """Its name, as tokens give it."""

    def key(self, key_id: str) -> jwt.PyJWK | None:
        """The key of this name; None when the issuer publishes none.

        Raises:
            IssuerUnavailableError: It cannot be asked.
        """
        ...

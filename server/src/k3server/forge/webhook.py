"""What the forge's webhooks say. A delivery is a hint that something may have changed, never the
truth about it: whoever gets one asks the forge. Pure.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any, Final

from k3bundle.canonical import StrictJsonError, parse_strict

__all__ = ["Hint", "WebhookError", "hint_of", "is_signed"]

_PREFIX: Final = "sha256="
_FULL_SHA: Final = 40
_LARGEST_NUMBER: Final = 10_000_000
_PULL_ACTIONS: Final = frozenset(
    {"opened", "reopened", "synchronize", "closed", "edited", "converted_to_draft"}
)


class WebhookError(Exception):
    """The delivery is not what it says it is; the text is a sentence."""


@dataclass(frozen=True)
class Hint:
    """A pull request that is worth a look."""

    repository: str
    """`owner/name`."""
    pull_request: int
    """Its number."""
    comment: str | None = None
    """Text of a comment that was made; None for everything else."""
    author: str | None = None
    """Account that made the comment."""


def is_signed(secret: bytes, body: bytes, signature: str | None) -> bool:
    """Whether a delivery comes from someone who knows the secret.

    Args:
        secret: The webhook's secret.
        body: The body as it came, byte for byte.
        signature: Header `X-Hub-Signature-256`; None where it was not sent.
    """
    if not secret or signature is None or not signature.startswith(_PREFIX):
        return False
    due = hmac.new(secret, body, hashlib.sha256).hexdigest()
    # Bytes, because the comparison of texts refuses what is not ASCII with an exception.
    return hmac.compare_digest(due.encode(), signature[len(_PREFIX) :].encode("utf-8", "replace"))


def hint_of(event: str, body: bytes) -> Hint | None:
    """Which pull request a delivery is about.

    Args:
        event: Header `X-GitHub-Event`.
        body: The body.

    Returns:
        None where it is about none, or about nothing that matters here.

    Raises:
        WebhookError: The body is not JSON, or lacks what such an event has.
    """
    if event not in ("pull_request", "issue_comment"):
        return None
    try:
        found = parse_strict(body)
    except StrictJsonError as error:
        raise WebhookError(f"The delivery is not strict JSON: {error}.") from error
    if event == "pull_request":
        if _text(found, "action") not in _PULL_ACTIONS:
            return None
        return Hint(_repository(found), _number(found, "pull_request"))
    # Comments on issues come under the same name.
    if _text(found, "action") != "created" or not _at(found, "issue", "pull_request"):
        return None
    return Hint(
        _repository(found),
        _number(found, "issue"),
        comment=_text(found, "comment", "body"),
        author=_text(found, "comment", "user", "login"),
    )


def _repository(found: Any) -> str:
    return _text(found, "repository", "full_name")


def _number(found: Any, *path: str) -> int:
    value = _at(found, *path, "number")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LARGEST_NUMBER:
        raise WebhookError(f"The delivery has no number at {'.'.join(path)}.number.")
    return value


def _text(found: Any, *path: str) -> str:
    value = _at(found, *path)
    if not isinstance(value, str):
        raise WebhookError(f"The delivery has no text at {'.'.join(path)}.")
    return value


def _at(found: Any, *path: str) -> Any:
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found

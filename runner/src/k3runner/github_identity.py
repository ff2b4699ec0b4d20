"""Who sends a bundle, as GitHub knows it: an account with a published key, or a workflow."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Final

from k3runner.errors import MachineError, UsageError
from k3runner.visible import one_line

__all__ = ["audience_of", "checked_account", "identity_token"]

_ACCOUNT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
_SECRET: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105
_LIMIT_S: Final = 15
_LARGEST: Final = 1 << 16


def checked_account(name: str | None) -> str | None:
    """Return the name of a GitHub account.

    Raises:
        UsageError: No account can have that name.
    """
    if name is not None and not _ACCOUNT.fullmatch(name):
        raise UsageError(
            f"--github-account must be the name of an account, found `{one_line(name, 80)}`.",
            "Take the last word of the account's address.",
        )
    return name


def audience_of(registry: str, blob_sha256: str) -> str:
    """What an identity token must be made for: this archive at this registry, nothing else."""
    return f"{registry}/api/v1/blobs/{blob_sha256}"


def identity_token(registry: str, blob_sha256: str, environ: Mapping[str, str]) -> str:
    """Ask GitHub Actions for a token that says which workflow sends this archive.

    Args:
        registry: Base URL of the registry, as the registry itself gives it.
        blob_sha256: Digest of the archive; the token is good for nothing else.
        environ: The process environment, where Actions says whom to ask.

    Raises:
        UsageError: This is no job of Actions that may ask.
        MachineError: There was no token.
    """
    address, secret = environ.get(_URL, ""), environ.get(_SECRET, "")
    if urllib.parse.urlsplit(address).scheme not in ("http", "https") or not secret:
        raise UsageError(
            "GitHub Actions does not offer identity tokens here.",
            "Use --github-actions in a job with `permissions: id-token: write`.",
        )
    audience = urllib.parse.quote(audience_of(registry, blob_sha256), safe="")
    mark = "&" if "?" in address else "?"
    request = urllib.request.Request(  # noqa: S310
        f"{address}{mark}audience={audience}", headers={"Authorization": f"Bearer {secret}"}
    )
    try:
        # The scheme was checked above.
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:  # noqa: S310
            found = json.loads(response.read(_LARGEST))
        token = found["value"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MachineError(
            f"GitHub Actions gave no identity token: {one_line(str(error), 160)}.",
            "Run the step again, or send with --token-file.",
        ) from error
    if not isinstance(token, str) or not token.isascii():
        raise MachineError("GitHub Actions gave no identity token.", "Run the step again.")
    return token

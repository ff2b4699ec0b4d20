"""Asks and tells the forge, through its REST interface. No redirect is followed, and no address
comes from anywhere but the operator's settings.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import urllib3

from k3server.forge.messages import MARKER, Comment, CommitStatus

__all__ = ["ForgeClient", "ForgeError", "ForgeRefusedError", "ForgeSilentError", "PullRequest"]

_TIMEOUT_S: Final = 10.0
_PAGE: Final = 100
_MOST_PAGES: Final = 30
_LARGEST_ANSWER: Final = 8 << 20
_OK: Final = frozenset({200, 201})
_MISSING: Final = 404
_RATE_LIMITED: Final = frozenset({403, 429})
_FIRST_SERVER_ERROR: Final = 500
_DEFAULT_WAIT_S: Final = 60.0
_LONGEST_WAIT_S: Final = 3600.0


class ForgeError(Exception):
    """The forge did not do what was asked; the text is a sentence."""


class ForgeSilentError(ForgeError):
    """It may work later: no answer, an error of the forge itself, or too many requests."""

    def __init__(self, problem: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s
        """When to try again, as the forge says; None where it says nothing."""


class ForgeRefusedError(ForgeError):
    """It will not work later either."""


@dataclass(frozen=True)
class PullRequest:
    """A pull request as the forge sees it now."""

    head_sha: str
    """Commit at its head; after a force-push another one than before."""
    base_sha: str
    """Commit that it is to be merged into."""
    base_repository: str
    """Repository that it was opened in."""
    head_repository: str | None
    """Repository of its head, which differs for a fork; None where the fork is gone."""
    author: str
    """Account that opened it."""
    open: bool
    """Whether it can still be merged."""


class ForgeClient:
    """One forge, with one account's token."""

    def __init__(self, root: str, token: str, *, account: str) -> None:
        """Prepares the client; nothing is asked yet.

        Args:
            root: Address of the REST interface, for example `https://api.github.com`.
            token: The account's token; empty: only what is public can be asked.
            account: Login of the account, by which our own comment is told from others'.
        """
        parts = urlsplit(root)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ForgeError(f"The forge's address must be http or https, found {root!r}.")
        self._root = root.rstrip("/")
        self._account = account
        self._headers = {
            "Accept": "application/vnd.github+json",
            "User-Agent": "k3-eval-registry",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=_TIMEOUT_S, read=_TIMEOUT_S), retries=False
        )

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        """A pull request; None where there is none."""
        found = self.ask("GET", f"/repos/{repository}/pulls/{number}", missing_ok=True)
        if found is None:
            return None
        try:
            head = found["head"]["repo"]
            return PullRequest(
                head_sha=found["head"]["sha"],
                base_sha=found["base"]["sha"],
                base_repository=found["base"]["repo"]["full_name"],
                head_repository=None if head is None else head["full_name"],
                author=found["user"]["login"],
                open=found["state"] == "open",
            )
        except (KeyError, TypeError) as error:
            raise ForgeRefusedError(f"The forge's pull request lacks {error}.") from error

    def commits(self, repository: str, number: int) -> frozenset[str]:
        """Commits of a pull request; the forge lists 250 at most."""
        path = f"/repos/{repository}/pulls/{number}/commits"
        return frozenset(one["sha"] for one in self._pages(path) if isinstance(one.get("sha"), str))

    def file_at(self, repository: str, path: str, commit_sha: str) -> bytes | None:
        """A file as it is in a commit; None where it is not there."""
        where = f"/repos/{repository}/contents/{quote(path)}?ref={commit_sha}"
        found = self.ask("GET", where, missing_ok=True)
        if found is None:
            return None
        if not isinstance(found, dict) or found.get("encoding") != "base64":
            raise ForgeRefusedError(f"{path} is not a file that the forge gives at once.")
        try:
            return base64.b64decode(found["content"], validate=False)
        except (KeyError, TypeError, binascii.Error) as error:
            raise ForgeRefusedError(f"The forge's copy of {path} cannot be read.") from error

    def signing_keys(self, account: str) -> tuple[str, ...]:
        """SSH keys that an account publishes, for signing and for access, as OpenSSH lines."""
        found: list[str] = []
        for kind in ("ssh_signing_keys", "keys"):
            path = f"/users/{quote(account)}/{kind}"
            found += [one["key"] for one in self._pages(path) if isinstance(one.get("key"), str)]
        return tuple(dict.fromkeys(found))

    def set_status(self, repository: str, status: CommitStatus) -> None:
        """Sets a commit's status; the newest of a context is the one that counts."""
        self.ask(
            "POST",
            f"/repos/{repository}/statuses/{status.commit_sha}",
            {
                "state": status.state,
                "description": status.description,
                "target_url": status.target_url,
                "context": status.context,
            },
        )

    def put_comment(self, repository: str, number: int, comment: Comment) -> None:
        """Makes our comment on a pull request, or changes it where it is already there."""
        path = f"/repos/{repository}/issues/{number}/comments"
        ours = next((one for one in self._pages(path) if self._is_ours(one)), None)
        if ours is None:
            self.ask("POST", path, {"body": comment.body})
        elif ours.get("body") != comment.body:
            where = f"/repos/{repository}/issues/comments/{ours['id']}"
            self.ask("PATCH", where, {"body": comment.body})

    def _is_ours(self, comment: dict[str, Any]) -> bool:
        # Anyone can paste the marker; only our own account can be the author.
        user = comment.get("user")
        login = user.get("login") if isinstance(user, dict) else None
        return login == self._account and str(comment.get("body", "")).startswith(MARKER)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        mark = "&" if "?" in path else "?"
        for page in range(1, _MOST_PAGES + 1):
            found = self.ask("GET", f"{path}{mark}per_page={_PAGE}&page={page}")
            if not isinstance(found, list):
                raise ForgeRefusedError(f"The forge gives no list at {path}.")
            yield from (one for one in found if isinstance(one, dict))
            if len(found) < _PAGE:
                return
        raise ForgeRefusedError(f"The forge's list at {path} does not end.")

    def ask(
        self,
        method: str,
        path: str,
        body: object | None = None,
        *,
        missing_ok: bool = False,
        bearer: str | None = None,
    ) -> Any:
        """Send one request, and return what the answer's JSON says.

        Args:
            method: HTTP method.
            path: Path below the interface's address.
            body: JSON to send.
            missing_ok: Whether 404 is an answer, which is None then.
            bearer: Whose token is sent; None: the account's.

        Raises:
            ForgeError: The forge does not answer, or not as asked.
        """
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        try:
            answer = self._pool.request(
                method,
                self._root + path,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            content = answer.read(_LARGEST_ANSWER + 1, decode_content=True)
            answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise ForgeSilentError(f"The forge does not answer: {error}.") from error
        if answer.status == _MISSING and missing_ok:
            return None
        if answer.status not in _OK:
            raise _refusal(method, path, answer.status, answer.headers, content)
        if len(content) > _LARGEST_ANSWER:
            raise ForgeRefusedError(f"The forge's answer to {path} is too large.")
        try:
            return json.loads(content)
        except ValueError as error:
            raise ForgeSilentError(f"The forge's answer to {path} is not JSON.") from error


def _refusal(
    method: str, path: str, status: int, headers: urllib3.HTTPHeaderDict, content: bytes
) -> ForgeError:
    limited = status in _RATE_LIMITED and (
        "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    )
    said = content[:200].decode("utf-8", "replace").replace("\n", " ")
    text = f"The forge answers {status} to {method} {path.partition('?')[0]}: {said}"
    if limited or status >= _FIRST_SERVER_ERROR:
        return ForgeSilentError(text, retry_after_s=_wait_s(headers) if limited else None)
    return ForgeRefusedError(text)


def _wait_s(headers: urllib3.HTTPHeaderDict) -> float:
    try:
        wanted = float(headers.get("retry-after", _DEFAULT_WAIT_S))
    except ValueError:
        return _DEFAULT_WAIT_S
    return min(max(wanted, 0.0), _LONGEST_WAIT_S)

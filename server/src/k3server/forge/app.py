"""A GitHub App: what it signs for itself, the tokens of its installations, and its check runs.

Only an App can make check runs. Its tokens work for an hour and for the repository that they were
asked for; they are kept in memory only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from k3server.forge.client import ForgeClient, ForgeError, ForgeRefusedError, ForgeSilentError
from k3server.forge.messages import CheckRun
from k3server.ports import Clock

__all__ = ["ForgeApp", "read_app_key"]

_BACKDATED_S: Final = 60
"""A clock that is a little ahead must not make a token of the future."""
_LIFE_S: Final = 540
_RENEWED_BEFORE: Final = timedelta(minutes=5)
_SHORTEST_KEY_BITS: Final = 2048


@dataclass(frozen=True)
class _Installed:
    """The token of an installation."""

    token: str
    expires_at: datetime


def read_app_key(content: bytes) -> RSAPrivateKey:
    """The private key of an App, as GitHub hands it out.

    Raises:
        ForgeError: It is none.
    """
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ForgeError("Expected the private key of a GitHub App in PEM, found none.") from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < _SHORTEST_KEY_BITS:
        raise ForgeError("Expected an RSA key of 2048 bits or more, found another key.")
    return key


class ForgeApp:
    """One App on one forge."""

    def __init__(
        self, client: ForgeClient, clock: Clock, *, app_id: int, key: RSAPrivateKey
    ) -> None:
        """Keep the parts; nothing is asked yet.

        Args:
            client: The forge.
            clock: The time of day; what the App signs ends after minutes.
            app_id: Number of the App.
            key: Its private key.
        """
        self._client = client
        self._clock = clock
        self._app_id = app_id
        self._key = key
        self._installed: dict[str, _Installed] = {}

    def put_check(self, repository: str, check: CheckRun) -> None:
        """Make our check run on a commit, or change it where it is already there.

        Raises:
            ForgeError: The App is not installed there, or the forge does not answer.
        """
        token = self._token(repository)
        where = f"/repos/{repository}/check-runs"
        ours = self._ours(repository, check, token)
        # What was concluded stays concluded on the forge; a newer run takes its place there.
        reopens = check.conclusion is None and ours is not None and ours["status"] == "completed"
        if ours is None or reopens:
            self._client.ask("POST", where, _body(check), bearer=token)
        elif not _says(ours, check):
            number = ours["id"]
            if type(number) is not int:
                raise ForgeRefusedError("The forge's check run has no number.")
            self._client.ask("PATCH", f"{where}/{number}", _body(check), bearer=token)

    def _ours(self, repository: str, check: CheckRun, token: str) -> Mapping[str, Any] | None:
        """The newest of our check runs on the commit."""
        path = (
            f"/repos/{repository}/commits/{check.commit_sha}/check-runs"
            f"?check_name={check.name}&app_id={self._app_id}&filter=latest"
        )
        found = self._client.ask("GET", path, bearer=token)
        runs = found.get("check_runs") if isinstance(found, dict) else None
        if not isinstance(runs, list):
            raise ForgeRefusedError("The forge gives no list of check runs.")
        ours = [run for run in runs if self._is_ours(run, check)]
        return max(ours, key=lambda run: str(run.get("started_at") or ""), default=None)

    def _is_ours(self, run: Any, check: CheckRun) -> bool:
        app = run.get("app") if isinstance(run, dict) else None
        return (
            isinstance(app, dict)
            and app.get("id") == self._app_id
            and run.get("name") == check.name
            and run.get("head_sha") == check.commit_sha
            and "status" in run
        )

    def _token(self, repository: str) -> str:
        known = self._installed.get(repository)
        now = self._clock.now()
        if known is not None and now < known.expires_at - _RENEWED_BEFORE:
            return known.token
        own = self._signed(now)
        found = self._client.ask(
            "GET", f"/repos/{repository}/installation", missing_ok=True, bearer=own
        )
        if found is None:
            raise ForgeRefusedError(f"The App is not installed in {repository}.")
        asked = {
            "repositories": [repository.partition("/")[2]],
            "permissions": {"checks": "write"},
        }
        try:
            path = f"/app/installations/{int(found['id'])}/access_tokens"
            answer = self._client.ask("POST", path, asked, bearer=own)
            token = str(answer["token"])
            expires_at = datetime.fromisoformat(str(answer["expires_at"]))
            known = _Installed(token, expires_at)
            if now >= expires_at:
                raise ForgeSilentError("The forge gave a token that has ended; clocks differ.")
        except (KeyError, TypeError, ValueError) as error:
            raise ForgeRefusedError(f"The forge's token of the App lacks {error}.") from error
        self._installed[repository] = known
        return token

    def _signed(self, now: datetime) -> str:
        """What the App says about itself, for some minutes."""
        at = int(now.timestamp())
        claims = {"iat": at - _BACKDATED_S, "exp": at + _LIFE_S, "iss": str(self._app_id)}
        return jwt.encode(claims, self._key, algorithm="RS256")


def _body(check: CheckRun) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": check.name,
        "head_sha": check.commit_sha,
        "details_url": check.details_url,
        "status": "queued" if check.conclusion is None else "completed",
        "output": {"title": check.title, "summary": check.summary},
    }
    return body if check.conclusion is None else {**body, "conclusion": check.conclusion}


def _says(found: Mapping[str, Any], check: CheckRun) -> bool:
    """Whether a check run on the forge says this already."""
    output = found.get("output")
    return (
        found.get("conclusion") == check.conclusion
        and found.get("details_url") == check.details_url
        and isinstance(output, dict)
        and (output.get("title"), output.get("summary")) == (check.title, check.summary)
    )

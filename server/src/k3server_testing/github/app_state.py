"""What the stand-in knows of one App: its key, where it is installed, and its check runs."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt

from k3server_testing.github.answers import Answer, laid
from k3server_testing.github.description import Operation

__all__ = ["AppState"]

_LONGEST_LIFE_S = 660
_SUMMARY_LIMIT = 65_535
_INSTALLATION = 4711


@dataclass
class AppState:
    """One App."""

    app_id: int = 0
    """Its number."""
    public_key: str = ""
    """Its public key in PEM."""
    installed: list[str] = field(default_factory=list)
    """Repositories, `owner/name`, in which it is installed."""
    now: str = "2026-01-02T05:00:00Z"
    """The time of day that tokens are judged by."""
    expires_at: str = "2026-01-02T06:00:00Z"
    """When the tokens of installations end."""
    tokens: list[str] = field(default_factory=list)
    """Tokens that installations got."""
    checks: list[dict[str, Any]] = field(default_factory=list)
    """Check runs in order."""

    def take(
        self,
        operation: Operation,
        values: dict[str, str],
        query: dict[str, str],
        body: Any,
        authorization: str,
    ) -> Answer:
        """Answers a request that only an App can make."""
        bearer = authorization.removeprefix("Bearer ")
        repository = f"{values.get('owner')}/{values.get('repo')}"
        if operation.operation_id.startswith("apps/"):
            if not self._is_signed(bearer):
                return Answer(401, {"message": "A JSON web token could not be decoded"})
            return self._of_app(operation, repository, values, body)
        if bearer not in self.tokens:
            return Answer(403, {"message": "Resource not accessible by integration"})
        match operation.operation_id:
            case "checks/create":
                return self._create(operation, body)
            case "checks/update":
                return self._update(int(values["check_run_id"]), body)
            case _:
                return self._listed(values["ref"], query)

    def _of_app(
        self, operation: Operation, repository: str, values: dict[str, str], body: Any
    ) -> Answer:
        if operation.operation_id == "apps/get-repo-installation":
            if repository not in self.installed:
                return Answer(404, {"message": "Not Found"})
            return Answer(200, laid(operation.example, {"id": _INSTALLATION}))
        if int(values["installation_id"]) != _INSTALLATION:
            return Answer(404, {"message": "Not Found"})
        names = {each.partition("/")[2] for each in self.installed}
        if not set(body["repositories"]) <= names or body["permissions"] != {"checks": "write"}:
            return Answer(422, {"message": "Validation Failed"})
        self.tokens.append(f"ghs_{len(self.tokens)}")
        made = {"token": self.tokens[-1], "expires_at": self.expires_at}
        return Answer(201, laid(operation.example, made))

    def _is_signed(self, token: str) -> bool:
        now = datetime.fromisoformat(self.now).astimezone(UTC).timestamp()
        try:
            claims = jwt.decode(
                token,
                self.public_key,
                algorithms=["RS256"],
                options={"verify_exp": False, "verify_iat": False},
            )
        except jwt.PyJWTError:
            return False
        issued, ends = claims["iat"], claims["exp"]
        in_time = issued <= now < ends and ends - issued <= _LONGEST_LIFE_S
        return bool(in_time) and bool(claims["iss"] == str(self.app_id))

    def _create(self, operation: Operation, body: Any) -> Answer:
        if len(body["output"]["summary"]) > _SUMMARY_LIMIT:
            return Answer(422, {"message": "Validation Failed: summary is too long"})
        made = laid(operation.example, {"conclusion": None, **body})
        made |= {"id": 1 + len(self.checks), "app": {**made["app"], "id": self.app_id}}
        made["started_at"] = f"2026-01-02T05:00:{len(self.checks):02d}Z"
        self.checks.append(made)
        return Answer(201, made)

    def _update(self, number: int, body: Any) -> Answer:
        for found in self.checks:
            if found["id"] == number:
                found.update(body)
                return Answer(200, found)
        return Answer(404, {"message": "Not Found"})

    def _listed(self, ref: str, query: dict[str, str]) -> Answer:
        runs = [
            run
            for run in self.checks
            if run["head_sha"] == ref
            and run["name"] == query.get("check_name", run["name"])
            and str(run["app"]["id"]) == query.get("app_id", str(run["app"]["id"]))
        ]
        shown = runs[-1:] if query.get("filter", "latest") == "latest" else runs
        return Answer(200, json.loads(json.dumps({"total_count": len(shown), "check_runs": shown})))

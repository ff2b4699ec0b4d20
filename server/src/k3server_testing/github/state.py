"""What the stand-in knows: pull requests, files, keys, comments, statuses, and faults to come."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from k3server_testing.github.answers import Answer, laid
from k3server_testing.github.app_state import AppState
from k3server_testing.github.description import Operation

__all__ = ["Fault", "GithubState"]

_DESCRIPTION_LIMIT = 140
_BODY_LIMIT = 65_536


@dataclass
class Fault:
    """A failure that waits for the next requests."""

    status: int
    """HTTP status."""
    times: int = 1
    """How many requests it hits."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the answer."""
    after: bool = False
    """Whether the request has its effect before it fails."""


@dataclass
class GithubState:
    """One repository host."""

    account: str = "k3-eval"
    """Account whose token is used."""
    pulls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`owner/name#number` -> values laid over the example."""
    commits: dict[str, list[str]] = field(default_factory=dict)
    """The same key -> SHAs."""
    files: dict[str, str] = field(default_factory=dict)
    """`owner/name@sha:path` -> text."""
    keys: dict[str, list[str]] = field(default_factory=dict)
    """Account -> OpenSSH lines."""
    comments: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """As for commits -> comments."""
    statuses: list[dict[str, Any]] = field(default_factory=list)
    """Statuses in order."""
    app: AppState = field(default_factory=AppState)
    """The one App that is known, and its check runs."""
    faults: list[Fault] = field(default_factory=list)
    """Failures to come."""
    requests: list[str] = field(default_factory=list)
    """Method and path of every request."""
    next_id: int = 1
    """Id of the next comment."""

    def take(
        self,
        operation: Operation,
        values: dict[str, str],
        query: dict[str, str],
        body: Any,
        authorization: str,
    ) -> Answer:
        """Answers a request that is as the description says."""
        if operation.operation_id.startswith(("apps/", "checks/")):
            return self.app.take(operation, values, query, body, authorization)
        key = f"{values.get('owner')}/{values.get('repo')}"
        pull = f"{key}#{values.get('pull_number') or values.get('issue_number')}"
        answers: dict[str, Callable[[], Answer]] = {
            "pulls/get": lambda: self._pull(operation, pull),
            "pulls/list-commits": lambda: _page(self._commits(operation, pull), query),
            "repos/get-content": lambda: self._file(
                operation, f"{key}@{query.get('ref')}:{values['path']}"
            ),
            "users/list-public-keys-for-user": lambda: _page(
                self._keys(operation, values["username"]), query
            ),
            "users/list-ssh-signing-keys-for-user": lambda: _page([], query),
            "repos/create-commit-status": lambda: self._status(operation, key, values["sha"], body),
            "issues/list-comments": lambda: _page(self.comments.get(pull, []), query),
            "issues/create-comment": lambda: self._comment(operation, pull, body),
            "issues/update-comment": lambda: self._update(int(values["comment_id"]), body),
        }
        answer = answers.get(operation.operation_id)
        return Answer(operation.status, operation.example) if answer is None else answer()

    def _pull(self, operation: Operation, key: str) -> Answer:
        found = self.pulls.get(key)
        if found is None:
            return Answer(404, {"message": "Not Found"})
        return Answer(200, laid(operation.example, found))

    def _commits(self, operation: Operation, key: str) -> list[Any]:
        return [laid(operation.example[0], {"sha": sha}) for sha in self.commits.get(key, [])]

    def _file(self, operation: Operation, key: str) -> Answer:
        text = self.files.get(key)
        if text is None:
            return Answer(404, {"message": "Not Found"})
        content = base64.encodebytes(text.encode()).decode()
        return Answer(200, laid(operation.example, {"content": content, "encoding": "base64"}))

    def _keys(self, operation: Operation, account: str) -> list[Any]:
        lines = self.keys.get(account, [])
        return [laid(operation.example[0], {"key": line}) for line in lines]

    def _status(self, operation: Operation, key: str, sha: str, body: Any) -> Answer:
        if len(body.get("description") or "") > _DESCRIPTION_LIMIT:
            return Answer(422, {"message": "Validation Failed: description is too long"})
        self.statuses.append({"repository": key, "sha": sha, **body})
        return Answer(201, laid(operation.example, body))

    def _comment(self, operation: Operation, key: str, body: Any) -> Answer:
        if len(body["body"]) > _BODY_LIMIT:
            return Answer(422, {"message": "Validation Failed: body is too long"})
        made = laid(
            operation.example,
            {"id": self.next_id, "body": body["body"], "user": {"login": self.account}},
        )
        self.next_id += 1
        self.comments.setdefault(key, []).append(made)
        return Answer(201, made)

    def _update(self, number: int, body: Any) -> Answer:
        for found in self.comments.values():
            for comment in found:
                if comment["id"] == number:
                    comment["body"] = body["body"]
                    return Answer(200, comment)
        return Answer(404, {"message": "Not Found"})


def _page(found: list[Any], query: dict[str, str]) -> Answer:
    size, page = int(query.get("per_page", "30")), int(query.get("page", "1"))
    return Answer(200, json.loads(json.dumps(found[size * (page - 1) : size * page])))

"""Parameters that several routes take, with their patterns."""

import re
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request
from pydantic import BeforeValidator

from k3bundle.record import MAX_SAFE_INTEGER, Record
from k3server.complaint import invalid_request
from k3server.wire import ProblemAnswer

__all__ = [
    "Before",
    "Commit",
    "Digest",
    "Owner",
    "PullRequest",
    "RepositoryPart",
    "WantedId",
    "WholeNumber",
    "json_body",
    "named_once",
    "problem_schemas",
    "problems",
]

_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,15}")


def _whole(value: object) -> object:
    """Refuse `1.0`, `+1`, `01` and `1_0`, which pydantic alone reads as numbers."""
    if isinstance(value, str) and _WHOLE.fullmatch(value) is None:
        raise ValueError("not a whole number in its one form")
    return value


WholeNumber = Annotated[int, BeforeValidator(_whole)]
"""A number in an address, which has one form."""

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="A SHA-256.")]
"""A digest in the path."""

Owner = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$")]
"""Owner of a repository."""

RepositoryPart = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
"""Name of a repository, without its owner."""

PullRequest = Annotated[WholeNumber, Path(ge=1, le=10_000_000)]
"""Number of a pull request."""

Commit = Annotated[str, Path(pattern=r"^[0-9a-f]{40}$", description="A full commit SHA.")]
"""A full commit SHA."""

WantedId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="Id on the board.")]
"""Something on the board."""

Before = Annotated[
    WholeNumber | None,
    Query(ge=1, le=MAX_SAFE_INTEGER, description="Only submissions older than this sequence."),
]
"""Cursor of a list."""

_PROBLEM: Final = "#/components/schemas/ProblemAnswer"
_WORDS: Final[dict[int, str]] = {
    400: "The body was cut or is not strict JSON.",
    401: "The token does not work.",
    403: "The token may not do this, or what is addressed is not shown; the answer says why.",
    404: "There is nothing under this address.",
    408: "The body came too slowly.",
    409: "The state of what is addressed does not allow it; the findings say why.",
    411: "Content-Length is missing.",
    413: "The body is too large.",
    422: "The request or the bundle is refused; the findings say why.",
    429: "The client sent more than the registry takes; Retry-After says when to come back.",
    503: "The registry is busy or lacks its database or store; Retry-After says when to come back.",
    507: "The disk is full; nothing was kept.",
}


async def named_once(request: Request) -> None:
    """A dependency: refuse a query that gives a name twice, which readers understand differently.

    Raises:
        PublicError: It does (422).
    """
    names = [name for name, _ in request.query_params.multi_items()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise invalid_request(
            [{"loc": ("query", name), "type": "twice", "input": list(names)} for name in twice]
        )


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its description; any route can answer 429."""
    return {
        status: {
            "description": _WORDS[status],
            "content": {"application/problem+json": {"schema": {"$ref": _PROBLEM}}},
        }
        for status in sorted({*statuses, 429})
    }


def json_body(record: type[Record], **example: Any) -> dict[str, Any]:
    """The description of a JSON request body, which a route reads itself and strictly."""
    content = {"schema": record.model_json_schema(), "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def problem_schemas() -> dict[str, Any]:
    """The records of error answers, as components of the description."""
    schema = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "ProblemAnswer": schema}

"""Turns validation errors of requests into sentences. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from k3server.errors import Problem, ProblemFinding, PublicError

__all__ = ["invalid_request"]

_DIGEST: Final = "64 lower-case hexadecimal digits (a SHA-256)"
_EXPECTED: Final[dict[str, tuple[str, str]]] = {
    "commit_sha": (
        "a full commit SHA of 40 lower-case hexadecimal digits",
        "`git rev-parse HEAD` prints it; short forms are refused, because they can be ambiguous.",
    ),
    "repository": (
        "a repository as owner/name",
        "Take the two words from its address on GitHub.",
    ),
    "owner": ("the owner of a repository", "Take it from the repository's address on GitHub."),
    "name": ("the name of a repository", "Take it from the repository's address on GitHub."),
    "pull_request": (
        "a pull request number from 1 to 10000000",
        "Take the number from the pull request's address.",
    ),
    "blob_sha256": (_DIGEST, "`sha256sum FILE` prints it."),
    "sha256": (_DIGEST, "`sha256sum FILE` prints it."),
    "plan_sha256": (_DIGEST, "`k3-eval plan` prints it."),
    "submission_id": (_DIGEST, "Take it from the page of the submission; use all of it."),
    "github_account": (
        "the name of a GitHub account",
        "Name the account that publishes the signing key, or leave the field out.",
    ),
    "reason": ("a sentence of 1 to 500 characters", "Say why, for the readers of the page."),
    "wanted_id": ("16 lower-case hexadecimal digits", "Take it from /board."),
    "upload_id": ("32 lower-case hexadecimal digits", "The answer to POST /api/v1/uploads has it."),
    "number": ("a part number from 1 to 100000", "The upload says how many parts there are."),
    "size_bytes": ("a size in bytes of 1 or more", "`stat -c %s FILE` prints it."),
    "before": ("a sequence number of 1 or more", "Use `next_before` of the page before."),
}
_SHOWN: Final = 80
_ALTOGETHER: Final = "The request cannot be read"


def invalid_request(errors: Sequence[Mapping[str, Any]]) -> PublicError:
    """A 422 with one finding per bad field.

    Args:
        errors: Errors as pydantic lists them, with `loc`, `type`, `msg` and `input`.
    """
    findings = tuple(_finding(error) for error in errors)
    first = findings[0]
    more = "" if len(findings) == 1 else f" This is the first of {len(findings)} findings."
    detail = f"{first.where}: {first.why} {first.hint}{more}"
    return PublicError(Problem(422, _ALTOGETHER, detail, findings=findings))


def _finding(error: Mapping[str, Any]) -> ProblemFinding:
    steps = [str(step) for step in error["loc"] if step not in ("path", "query", "body")]
    where = ascii(".".join(steps))[1:-1][:100] or "body"
    expected, hint = _EXPECTED.get(
        where, ("another value", "The API description lists every field.")
    )
    if error["type"] == "missing":
        why = f"Expected {expected}, found no such field."
    elif error["type"] == "extra_forbidden":
        why = "Expected only known fields, found this one."
        hint = "Remove it; the API description lists every field."
    else:
        why = f"Expected {expected}, found {_shown(error.get('input'))}."
    return ProblemFinding(code="request-invalid", where=where, why=why, hint=hint)


def _shown(value: object) -> str:
    if isinstance(value, str):
        cut = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
        return f"{cut!a} ({len(value)} characters)"
    if isinstance(value, bool | int | float) or value is None:
        return ascii(value)[:_SHOWN]
    return f"a value of type {type(value).__name__}"

"""Reads what a registry answers. Pure; the answer is not trusted, only shown."""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from k3bundle.finding import Finding, FindingCode
from k3runner.errors import RefusedError, RegistryError, RunnerError
from k3runner.visible import one_line
from k3runner.wording import plural

__all__ = ["detail_of", "error_of", "object_of", "refusal_of"]

_MOST_FINDINGS: Final = 200
_LONGEST: Final = 500
_TOO_LARGE: Final = 413
_PROBLEMS: Final[Mapping[int, tuple[str, str]]] = {
    401: (
        "does not know who sends this",
        "Give a token that works, by --token-file or K3EVAL_TOKEN.",
    ),
    403: ("does not allow this", "Write to the registry's operator."),
    404: (
        "does not know what was asked for (404)",
        "Check the id, and that the address is a k3-eval registry, then run it again.",
    ),
    409: ("cannot do this now", "Look at its page, then decide again."),
    507: (
        "has no disk space left",
        "The bundle is kept; tell the registry's operator, then run the command again.",
    ),
}
"""Status -> what the registry does, and the next step."""
_SAYS_WHAT_NEXT: Final = frozenset({401, 403, 404, 409})
"""Statuses whose sentence, where there is one, ends with the next step; a second only confuses."""


def object_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer's body, empty when there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def detail_of(body: bytes) -> str:
    """Return what a problem document says, on one line; empty when it says nothing."""
    problem = object_of(body)
    return one_line(str(problem.get("detail") or problem.get("title") or ""), _LONGEST)


def refusal_of(body: bytes) -> RefusedError:
    """Return the error for a refused submission, with the findings of its problem document."""
    problem = object_of(body)
    listed = problem.get("findings")
    entries = listed if isinstance(listed, list) else []
    findings = tuple(_finding(entry) for entry in entries[:_MOST_FINDINGS])
    detail = detail_of(body)
    count = f" with {plural(len(entries), 'finding')}" if entries else ""
    said = f" It said: {detail.rstrip('.')}." if detail else ""
    return RefusedError(
        f"The registry refused the bundle{count}.{said}",
        "The bundle is kept; correct what the findings name and run the evaluation again.",
        findings,
    )


def error_of(status: int, body: bytes, registry: str) -> RunnerError:
    """Return the error for a status that is neither success nor worth another attempt."""
    detail = detail_of(body)
    said = f" It said: {detail.rstrip('.')}." if detail else ""
    if status == _TOO_LARGE:
        return RefusedError(
            f"The bundle is larger than the registry at {registry} takes.{said}",
            "The bundle is kept; ask the registry's operator to raise the limit.",
        )
    problem, hint = _PROBLEMS.get(
        status,
        (
            f"answered {status}",
            "The bundle is kept; check the address and the registry's log, then run it again.",
        ),
    )
    if detail and status in _SAYS_WHAT_NEXT:
        hint = ""
    return RegistryError(f"The registry at {registry} {problem}.{said}", hint)


def _finding(entry: object) -> Finding:
    fields = entry if isinstance(entry, dict) else {}
    code, where, why, hint = (
        one_line(str(fields.get(key, "")), _LONGEST) for key in ("code", "where", "why", "hint")
    )
    # The code comes from the registry and is only shown, so an unknown one is not an error.
    return Finding(cast(FindingCode, code or "unnamed"), where, why, hint)

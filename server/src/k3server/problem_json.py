"""Problems as `application/problem+json` (RFC 9457)."""

import json

from starlette.responses import Response

from k3server.errors import Problem

__all__ = ["problem_json"]


def problem_json(problem: Problem) -> Response:
    """The answer that tells a problem to a program."""
    body = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "findings": [
            {"code": each.code, "where": each.where, "why": each.why, "hint": each.hint}
            for each in problem.findings
        ],
    }
    return Response(
        json.dumps(body),
        status_code=problem.status,
        media_type="application/problem+json",
        headers=dict(problem.headers),
    )

"""`/api/v1/submissions/{id}/retraction`: take a submission back."""

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from k3server.errors import Problem, PublicError
from k3server.request_body import read_record
from k3server.routes.parameters import Digest, json_body, problems
from k3server.routes.submissions import find_submission
from k3server.services import Services
from k3server.wire import RetractionRequest, SubmissionAnswer, submission_answer

__all__ = ["retraction_routes"]


def retraction_routes(services: Services) -> APIRouter:
    """The route, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/submissions", tags=["submissions"])
    settings = services.settings

    @router.post(
        "/{submission_id}/retraction",
        response_model=SubmissionAnswer,
        responses=problems(400, 401, 403, 404, 408, 411, 413, 422, 503, 507),
        openapi_extra=json_body(
            RetractionRequest,
            reason="The driver was another one than recorded.",
        ),
    )
    async def retract_submission(submission_id: Digest, request: Request) -> SubmissionAnswer:
        """Take a submission back: it stays readable with the reason, and is no evidence any more.

        Its own account may, and any account with the scope `moderate`.
        """
        header = request.headers.get("authorization")
        token = await services.identification.required_token(header, "submit")
        asked = await read_record(request, settings, RetractionRequest)
        submission = await find_submission(services, submission_id)
        identity = f"token:{token.account}"
        if identity != submission.row.identity and "moderate" not in token.scopes:
            raise _not_theirs()
        await run_in_threadpool(
            services.parts.moderation.decide,
            "retract",
            submission_id,
            actor=identity,
            reason=asked.reason,
            at=services.parts.clock.now(),
        )
        submission = await find_submission(services, submission_id)
        return submission_answer(submission.row, settings.public_url)

    return router


def _not_theirs() -> PublicError:
    return PublicError(
        Problem(
            403,
            "The token may not do this",
            "Expected the token of the account that submitted this, found another one. "
            "Ask the registry's operator.",
        )
    )

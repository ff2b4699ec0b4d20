"""`/api/v1/submissions`: make a submission of a stored archive, read one."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from k3server.errors import Problem, PublicError
from k3server.intake import Claim
from k3server.request_body import read_record
from k3server.routes.parameters import Digest, json_body, problems
from k3server.services import Services
from k3server.submission import Submission
from k3server.wire import SubmissionAnswer, SubmissionRequest, submission_answer

__all__ = ["find_submission", "submission_routes"]


def submission_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/submissions", tags=["submissions"])
    settings = services.settings

    @router.post(
        "",
        status_code=201,
        response_model=SubmissionAnswer,
        responses={
            200: {"model": SubmissionAnswer},
            **problems(400, 401, 403, 404, 408, 411, 413, 422, 503, 507),
        },
        openapi_extra=json_body(
            SubmissionRequest,
            blob_sha256="abababababababababababababababababababababababababababababababab",
            repository="vllm-project/vllm",
            pull_request=12345,
            commit_sha="0123456789abcdef0123456789abcdef01234567",
            github_account="octocat",
        ),
    )
    async def make_submission(request: Request, response: Response) -> SubmissionAnswer:
        """Verify and index: 201 when it is new, 200 with the same answer when it was there."""
        asked = await read_record(request, settings, SubmissionRequest)
        header = request.headers.get("authorization")
        caller = await services.identification.sender(
            header, asked.blob_sha256, asked.github_account
        )
        added = await services.intake.submit(Claim(asked.blob_sha256, asked.change(), caller))
        if not added.created:
            response.status_code = 200
        return submission_answer(added.submission.row, settings.public_url)

    @router.get(
        "/{submission_id}", response_model=SubmissionAnswer, responses=problems(403, 404, 422, 503)
    )
    async def read_submission(submission_id: Digest) -> SubmissionAnswer:
        """One submission."""
        submission = await find_submission(services, submission_id)
        return submission_answer(submission.row, settings.public_url)

    return router


async def find_submission(services: Services, submission_id: str) -> Submission:
    """The submission with this id.

    Raises:
        PublicError: There is none (404), or it is quarantined (403).
    """
    submission = await run_in_threadpool(services.index.get, submission_id)
    if submission is None:
        why = f"Expected a submission with the id {submission_id}, found none."
        hint = "Check the id, or look it up on the page of its pull request."
        raise PublicError(Problem(404, "There is no such submission", f"{why} {hint}"))
    if submission.row.state == "quarantined":
        raise PublicError(
            Problem(
                403,
                "The submission is quarantined",
                "Expected a submission that may be shown, found one that an operator looks at "
                f"first: {submission.row.reason} Come back later.",
            )
        )
    return submission

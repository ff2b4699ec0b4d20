"""`/api/v1/nonces`: ask for a nonce before a run."""

from fastapi import APIRouter, Request

from k3server.request_body import read_record
from k3server.routes.parameters import json_body, problems
from k3server.services import Services
from k3server.wire import NonceAnswer, NonceRequest, nonce_answer

__all__ = ["nonce_routes"]


def nonce_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/nonces", tags=["nonces"])

    @router.post(
        "",
        status_code=201,
        response_model=NonceAnswer,
        responses=problems(400, 408, 411, 413, 422, 507),
        openapi_extra=json_body(
            NonceRequest,
            repository="vllm-project/vllm",
            pull_request=12345,
            commit_sha="0123456789abcdef0123456789abcdef01234567",
            plan_sha256="cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd",
            signer="SHA256:uNiVztksCsDhcc0u9e8BrrNXVNLGtE2P4t1mMGzYfBY",
        ),
    )
    async def issue_nonce(request: Request) -> NonceAnswer:
        """A nonce for one run of one plan on one change by the owner of one key."""
        asked = await read_record(request, services.settings, NonceRequest)
        ticket = await services.intake.issue_nonce(asked.change(), asked.plan_sha256, asked.signer)
        return nonce_answer(ticket)

    return router

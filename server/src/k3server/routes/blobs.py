"""`/api/v1/blobs/{sha256}`: send an archive, or ask whether it is there."""

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from k3server.errors import Problem, PublicError
from k3server.request_body import content_length, pieces_of
from k3server.routes.parameters import Digest, problems
from k3server.services import Services
from k3server.settings import Settings
from k3server.wire import BlobAnswer

__all__ = ["blob_routes"]


def blob_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/blobs", tags=["blobs"])
    settings = services.settings

    @router.head(
        "/{sha256}",
        response_class=Response,
        responses={404: {"description": "It is not here."}, **problems(422)},
    )
    async def ask_for_blob(sha256: Digest) -> Response:
        """Whether an archive is there already: 200 with its size, or 404."""
        size = await run_in_threadpool(services.store.size, sha256)
        if size is None:
            return Response(status_code=404)
        return Response(headers={"Content-Length": str(size)})

    @router.put(
        "/{sha256}",
        status_code=201,
        response_model=BlobAnswer,
        responses={200: {"model": BlobAnswer}, **problems(400, 408, 411, 413, 422, 507)},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            }
        },
    )
    async def put_blob(sha256: Digest, request: Request, response: Response) -> BlobAnswer:
        """Send the raw bytes of an archive: 201 when it is new, 200 when it was there."""
        size = _archive_length(request, settings)
        if size == 0:
            why = "Expected the bytes of an archive, found an empty body. Send the .k3b file."
            raise PublicError(Problem(422, "The archive is empty", why))
        outcome = await services.intake.receive(sha256, pieces_of(request, settings, size=size))
        if outcome == "existing":
            response.status_code = 200
        return BlobAnswer(sha256=sha256, size_bytes=size)

    return router


def _archive_length(request: Request, settings: Settings) -> int:
    size = content_length(request, limit=settings.max_archive_bytes, what="archive")
    if size > settings.max_put_bytes:
        raise PublicError(
            Problem(
                413,
                "The archive comes in parts",
                f"Expected at most {settings.max_put_bytes} bytes in one request, found {size} "
                "announced. Open an upload in parts: POST /api/v1/uploads.",
            )
        )
    return size

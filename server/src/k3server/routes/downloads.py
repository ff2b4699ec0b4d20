"""`/api/v1/submissions/{id}/bundle`: the archive of a submission, as an attachment."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from k3bundle.layout import BUNDLE_SUFFIX
from k3server.routes.parameters import Digest, problems
from k3server.routes.submissions import find_submission
from k3server.services import Services

__all__ = ["download_routes"]

_PIECE_BYTES: Final = 256 * 1024


def download_routes(services: Services) -> APIRouter:
    """The route, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/submissions", tags=["submissions"])

    @router.get(
        "/{submission_id}/bundle",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"application/octet-stream": {}}},
            307: {"description": "The store has the archive, at an address that soon expires."},
            **problems(403, 404, 422, 503),
        },
    )
    async def download_bundle(submission_id: Digest) -> Response:
        """The archive exactly as it was received."""
        submission = await find_submission(services, submission_id)
        row = submission.row
        change = row.change
        stem = f"{change.repository.replace('/', '-')}-{change.pull_request}-{submission_id[:16]}"
        name = f"{stem}{BUNDLE_SUFFIX}"
        address = await run_in_threadpool(services.store.download_url, row.blob_sha256, name)
        if address is not None:
            return RedirectResponse(address, headers={"Cache-Control": "no-store"})
        file = await run_in_threadpool(services.store.open, row.blob_sha256)
        return StreamingResponse(
            _pieces(file),
            media_type="application/octet-stream",
            headers={
                "Content-Length": str(row.blob_size_bytes),
                "Content-Disposition": f'attachment; filename="{name}"',
                "Content-Security-Policy": "sandbox; default-src 'none'",
                "ETag": f'"{row.blob_sha256}"',
            },
        )

    return router


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE_BYTES):
            yield piece

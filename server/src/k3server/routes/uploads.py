"""`/api/v1/uploads`: archives in parts, for large ones and unsteady connections."""

import base64
import binascii
import re
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from k3server.errors import Problem, PublicError
from k3server.request_body import content_length, pieces_of, read_record
from k3server.routes.parameters import WholeNumber, json_body, problems
from k3server.services import Services
from k3server.upload_intake import UploadState
from k3server.wire import BlobAnswer, UploadAnswer, UploadRequest

__all__ = ["upload_routes"]

UploadId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="Id of an upload.")]
PartNumber = Annotated[WholeNumber, Path(ge=1, le=100_000, description="Number of a part, from 1.")]

_DIGEST: Final = re.compile(r"^\s*sha-256=:([A-Za-z0-9+/=]{44}):\s*$")
_DIGEST_BYTES: Final = 32


def upload_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/uploads", tags=["uploads"])
    settings = services.settings
    uploads = services.uploads

    @router.post(
        "",
        status_code=201,
        response_model=UploadAnswer,
        responses=problems(400, 408, 411, 413, 422, 503, 507),
        openapi_extra=json_body(
            UploadRequest,
            blob_sha256="abababababababababababababababababababababababababababababababab",
            size_bytes=150_000_000,
        ),
    )
    async def open_upload(request: Request) -> UploadAnswer:
        """Open an upload, or go on with the one of the same archive: `received` says what came."""
        asked = await read_record(request, settings, UploadRequest)
        if asked.size_bytes > settings.max_archive_bytes:
            raise _too_large(asked.size_bytes, settings.max_archive_bytes)
        return _answer(await uploads.open(asked.blob_sha256, asked.size_bytes))

    @router.get("/{upload_id}", response_model=UploadAnswer, responses=problems(404, 422, 503))
    async def read_upload(upload_id: UploadId) -> UploadAnswer:
        """What has arrived."""
        return _answer(await uploads.look(upload_id))

    @router.post(
        "/{upload_id}/complete",
        status_code=201,
        response_model=BlobAnswer,
        responses={200: {"model": BlobAnswer}, **problems(404, 409, 422, 503, 507)},
    )
    async def complete_upload(upload_id: UploadId, response: Response) -> BlobAnswer:
        """Make the archive of its parts: 201 when it is new, 200 when it was there."""
        upload = await uploads.find(upload_id)
        if await uploads.complete(upload) == "existing":
            response.status_code = 200
        return BlobAnswer(sha256=upload.blob_sha256, size_bytes=upload.size_bytes)

    _part_route(router, services)
    return router


def _part_route(router: APIRouter, services: Services) -> None:
    settings = services.settings
    uploads = services.uploads

    @router.put(
        "/{upload_id}/parts/{number}",
        status_code=201,
        response_model=BlobAnswer,
        responses={
            200: {"model": BlobAnswer},
            **problems(400, 404, 408, 411, 413, 422, 503, 507),
        },
        openapi_extra={
            "parameters": [
                {
                    "name": "Content-Digest",
                    "in": "header",
                    "required": True,
                    "description": "SHA-256 of the part as RFC 9530 writes it.",
                    "schema": {"type": "string", "pattern": _DIGEST.pattern},
                }
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            },
        },
    )
    async def put_part(
        upload_id: UploadId, number: PartNumber, request: Request, response: Response
    ) -> BlobAnswer:
        """Send the raw bytes of one part: 201 when it is new, 200 when it was there."""
        upload = await uploads.find(upload_id)
        digest = _content_digest(request)
        size = content_length(request, limit=settings.part_size_bytes, what="part")
        if number > upload.part_count or size != upload.part_bytes(number):
            raise _other_size(upload.part_count, upload.part_size_bytes, number, size)
        pieces = pieces_of(request, settings, size=size)
        if await uploads.receive_part(upload, number, digest, pieces) == "existing":
            response.status_code = 200
        return BlobAnswer(sha256=digest, size_bytes=size)


def _answer(state: UploadState) -> UploadAnswer:
    upload = state.upload
    return UploadAnswer(
        upload_id=upload.upload_id,
        blob_sha256=upload.blob_sha256,
        size_bytes=upload.size_bytes,
        part_size_bytes=upload.part_size_bytes,
        part_count=upload.part_count,
        received=state.received,
        expires_at_utc=upload.expires_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


def _content_digest(request: Request) -> str:
    text = request.headers.get("content-digest", "")
    match = _DIGEST.match(text)
    try:
        digest = base64.b64decode(match[1], validate=True) if match else b""
    except binascii.Error:
        digest = b""
    if len(digest) != _DIGEST_BYTES:
        raise PublicError(
            Problem(
                400,
                "The digest of the part is missing",
                f"Expected a header like `Content-Digest: sha-256=:BASE64:`, found {text[:80]!a}. "
                "Send the SHA-256 of the part, so that a part that arrived badly is refused.",
            )
        )
    return digest.hex()


def _too_large(size: int, limit: int) -> PublicError:
    return PublicError(
        Problem(
            413,
            "The archive is too large",
            f"Expected an archive of at most {limit} bytes, found {size} announced. "
            "Ask the registry's operator to raise the limit if it is right.",
        )
    )


def _other_size(count: int, part_size: int, number: int, size: int) -> PublicError:
    return PublicError(
        Problem(
            422,
            "The part does not fit",
            f"Expected one of {count} parts of {part_size} bytes, the last with what is left, "
            f"found part {number} of {size} bytes. Cut the file as the upload says.",
        )
    )

"""`/api/v1/webhooks/github`: hints that something happened to a pull request.

A delivery is only a hint: it puts the pull request into the outbox, and what is true is asked of
the forge. The exception is a comment `/k3-eval claim DIGEST`: the signed delivery names its author.
"""

import re
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from k3server.errors import Problem, PublicError
from k3server.forge.webhook import Hint, WebhookError, hint_of, is_signed
from k3server.request_body import content_length, pieces_of
from k3server.routes.parameters import problems
from k3server.services import Services
from k3server.trust import LADDER, Attribution

__all__ = ["webhook_routes"]

_CLAIM: Final = re.compile(r"^\s*/k3-eval claim ([0-9a-f]{12,64})\s*$", re.MULTILINE)
_GUID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_ROWS: Final = 200


def webhook_routes(services: Services) -> APIRouter:
    """The route, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"])
    settings = services.settings

    @router.post(
        "/github",
        status_code=202,
        responses=problems(400, 401, 404, 408, 409, 411, 413, 503, 507),
        response_class=Response,
    )
    async def take_delivery(request: Request) -> Response:
        """A delivery of GitHub: 202 when it was noted."""
        if not settings.webhook_secret:
            raise _not_here()
        size = content_length(request, limit=settings.max_webhook_bytes, what="delivery")
        body = b"".join([piece async for piece in pieces_of(request, settings, size=size)])
        if not is_signed(settings.webhook_secret, body, request.headers.get("x-hub-signature-256")):
            raise _unsigned()
        guid = request.headers.get("x-github-delivery", "")
        try:
            hint = hint_of(request.headers.get("x-github-event", ""), body)
        except WebhookError as error:
            raise _unreadable(str(error)) from None
        if not _GUID.fullmatch(guid):
            raise _unreadable("Expected an X-GitHub-Delivery header, found none that is one.")
        now = services.parts.clock.now()
        if not await run_in_threadpool(services.parts.outbox.is_first_delivery, guid, now):
            raise _replayed()
        if hint is not None:
            await run_in_threadpool(_take, services, hint)
        return Response(status_code=202)

    return router


def _take(services: Services, hint: Hint) -> None:
    now = services.parts.clock.now()
    services.parts.outbox.note(hint.repository, hint.pull_request, now)
    match = _CLAIM.search(hint.comment or "")
    if match is None or hint.author is None:
        return
    rows = services.index.of_pull(hint.repository, hint.pull_request, limit=_ROWS)
    named = [row for row in rows if row.bundle_sha256.startswith(match[1])]
    # A comment says who stands behind a bundle, where nobody does; not whose key signed it.
    if len(named) == 1 and named[0].identity is None:
        attribution = Attribution(f"github:{hint.author.lower()}", LADDER[0])
        services.index.attribute(named[0].bundle_sha256, attribution, now)


def _not_here() -> PublicError:
    return PublicError(
        Problem(
            404,
            "Deliveries are not taken",
            "Expected a registry that was told a webhook secret, found one that was not. "
            "Set GITHUB_WEBHOOK_SECRET where it is started.",
        )
    )


def _unsigned() -> PublicError:
    return PublicError(
        Problem(
            401,
            "The delivery is not signed",
            "Expected a header X-Hub-Signature-256 made with the webhook's secret, found another "
            "one. Give the webhook the same secret as the registry.",
        )
    )


def _unreadable(why: str) -> PublicError:
    return PublicError(Problem(400, "The delivery cannot be read", why))


def _replayed() -> PublicError:
    return PublicError(
        Problem(
            409,
            "The delivery came before",
            "Expected a new X-GitHub-Delivery, found one that was taken already. Nothing is lost: "
            "what is true is asked of GitHub, not read from deliveries.",
        )
    )

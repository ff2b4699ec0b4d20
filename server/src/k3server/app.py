"""Wires one application from its parts; no globals."""

import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from k3server import __version__
from k3server.answer_examples import with_examples
from k3server.complaint import invalid_request
from k3server.entity_tags import EntityTags
from k3server.errors import Problem, PublicError
from k3server.http_guard import SecurityHeaders
from k3server.identification import Identification
from k3server.intake import Intake
from k3server.metrics import Metrics, RequestMetrics
from k3server.parts import Parts
from k3server.ports import StoreFullError, StoreUnavailableError
from k3server.problem_json import problem_json
from k3server.rate_limit import RateLimits
from k3server.rendering import Pages
from k3server.routes.blobs import blob_routes
from k3server.routes.board import board_page_routes, board_routes
from k3server.routes.comparisons import comparison_page_routes, comparison_routes
from k3server.routes.discovery import discovery_routes
from k3server.routes.downloads import download_routes
from k3server.routes.health import health_routes
from k3server.routes.nonces import nonce_routes
from k3server.routes.pages import page_routes
from k3server.routes.parameters import problem_schemas
from k3server.routes.queries import query_routes
from k3server.routes.retractions import retraction_routes
from k3server.routes.static_files import static_routes
from k3server.routes.submissions import submission_routes
from k3server.routes.uploads import upload_routes
from k3server.routes.webhooks import webhook_routes
from k3server.services import Services
from k3server.settings import Settings
from k3server.unread_body import UnreadBodies
from k3server.upload_intake import UploadIntake

__all__ = ["create_app"]

_METHODS: Final = ("GET", "HEAD", "POST", "PUT")
_LOG: Final = logging.getLogger("k3server")
_NO_PAGE: Final = Problem(
    404,
    "There is no such page",
    "Expected the address of a page or of the API, found neither. "
    "Start at the front page, or at /api/v1/openapi.json.",
)
_FULL: Final = Problem(
    507,
    "The registry's disk is full",
    "Expected room for what was sent, found none; nothing of it was kept. "
    "Keep the bundle and send it again later.",
)
_AWAY: Final = Problem(
    503,
    "The registry lacks its database or store",
    "Expected an answer from the registry's database and object store, found none; nothing that "
    "was acknowledged is lost. Send the same request again in a moment.",
    headers={"Retry-After": "5"},
)
_DEFECT: Final = Problem(
    500,
    "The registry has a defect",
    "The registry could not answer; this is not your fault. Nothing that was acknowledged is lost. "
    "Try again, and report the time and address if it stays.",
)


def create_app(settings: Settings, parts: Parts) -> FastAPI:
    """An application on these parts.

    Args:
        settings: Limits and addresses.
        parts: An adapter for each protocol.

    Returns:
        An ASGI application; two of them in one process share nothing.
    """
    identification = Identification(settings, parts)
    intake = Intake(settings, parts, identification)
    uploads = UploadIntake(settings, parts, intake)
    services = Services(settings, parts, intake, uploads, identification)
    pages = Pages(settings.public_url)
    metrics = Metrics()
    app = FastAPI(
        title="k3-eval registry",
        version=__version__,
        description="Receives, verifies, stores and shows evidence per pull request and commit.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    for router in (
        blob_routes(services),
        upload_routes(services),
        submission_routes(services),
        retraction_routes(services),
        download_routes(services),
        nonce_routes(services),
        query_routes(services),
        webhook_routes(services),
        comparison_routes(services),
        board_routes(services),
        health_routes(services, metrics),
        static_routes(pages),
        discovery_routes(services, pages),
        board_page_routes(services, pages),
        comparison_page_routes(services, pages),
        page_routes(services, pages),
    ):
        app.include_router(router)
    _describe_problems(app)
    _tell_problems(app, pages)
    # The last one added is the outermost.
    app.add_middleware(EntityTags)
    app.add_middleware(
        RateLimits,
        reads=settings.reads,
        writes=settings.writes,
        sent_bytes=settings.sent_bytes,
        behind_proxy=settings.behind_proxy,
    )
    app.add_middleware(UnreadBodies)
    app.add_middleware(SecurityHeaders, max_header_bytes=settings.max_header_bytes)
    app.add_middleware(RequestMetrics, metrics=metrics)
    return app


def _describe_problems(app: FastAPI) -> None:
    described = app.openapi

    def with_problems() -> dict[str, Any]:
        found = described()
        found["components"]["schemas"].update(problem_schemas())
        return with_examples(found)

    app.openapi = with_problems  # type: ignore[method-assign]


def _tell_problems(app: FastAPI, pages: Pages) -> None:
    def told(request: Request, problem: Problem) -> Response:
        if request.url.path.startswith(("/api/", "/healthz", "/readyz", "/metrics")):
            return problem_json(problem)
        return pages.problem(problem)

    @app.exception_handler(PublicError)
    async def public(request: Request, error: PublicError) -> Response:
        return told(request, error.problem)

    @app.exception_handler(StoreFullError)
    async def full(request: Request, error: StoreFullError) -> Response:
        _LOG.error("disk full while answering %s %a: %s", request.method, request.url.path, error)
        return told(request, _FULL)

    @app.exception_handler(StoreUnavailableError)
    async def away(request: Request, error: StoreUnavailableError) -> Response:
        _LOG.error("no answer while answering %s %a: %s", request.method, request.url.path, error)
        return told(request, _AWAY)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return told(request, invalid_request(error.errors()).problem)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return told(request, _of_http(error, _allowed(app, request)))

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> Response:
        _LOG.error("defect while answering %s %a", request.method, request.url.path, exc_info=error)
        return told(request, _DEFECT)


def _of_http(error: HTTPException, allowed: str) -> Problem:
    if error.status_code == _NO_PAGE.status:
        return _NO_PAGE
    return Problem(
        error.status_code,
        "The request does not fit",
        f"Expected {allowed}, found another request. /api/v1/openapi.json lists what is there.",
        headers={**dict(error.headers or {}), "Allow": allowed} if allowed else {},
    )


def _allowed(app: FastAPI, request: Request) -> str:
    """Methods of an address, over all routes: one route knows its own only."""
    found = [
        method
        for method in _METHODS
        for scope in [{**request.scope, "method": method}]
        if any(route.matches(scope)[0] is Match.FULL for route in app.routes)
    ]
    return ", ".join(found)

"""Ways to come upon a submission: search, badges, feeds."""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from k3server.rendering import Pages
from k3server.routes.parameters import Commit, Owner, PullRequest, RepositoryPart
from k3server.services import Services
from k3server.submission import SubmissionRow
from k3server.views.badge import badge_of

__all__ = ["discovery_routes"]

_METHODS: Final = ["GET", "HEAD"]
_ATOM: Final = "application/atom+xml; charset=utf-8"
_SVG: Final = "image/svg+xml"
_PULL: Final = re.compile(r"([A-Za-z0-9-]+/[A-Za-z0-9_.-]+)#(\d{1,8})")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9_.-]+")
_HEX: Final = re.compile(r"[0-9a-f]{7,64}")
_RESULTS: Final = 50
# A badge on a pull request is asked for often; GitHub's image proxy keeps it for as long.
_FRESH: Final = {"Cache-Control": "public, max-age=60"}

SearchText = Annotated[str, Query(max_length=200)]


def discovery_routes(services: Services, pages: Pages) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(include_in_schema=False)
    index = services.index

    @router.api_route("/search", methods=_METHODS)
    async def search(q: SearchText = "") -> Response:
        query = q.strip()
        rows = await run_in_threadpool(_found, services, query) if query else ()
        return pages.page("search.html", query=query, rows=rows, limit=_RESULTS)

    @router.api_route("/{owner}/{name}/pull/{pull_request}/badge.svg", methods=_METHODS)
    async def pull_badge(owner: Owner, name: RepositoryPart, pull_request: PullRequest) -> Response:
        rows = await run_in_threadpool(
            index.of_pull, f"{owner}/{name}", pull_request, limit=_RESULTS, space="main"
        )
        return _badge(pages, rows)

    @router.api_route("/{owner}/{name}/commit/{commit_sha}/badge.svg", methods=_METHODS)
    async def commit_badge(owner: Owner, name: RepositoryPart, commit_sha: Commit) -> Response:
        rows = await run_in_threadpool(
            index.of_commit, f"{owner}/{name}", commit_sha, limit=_RESULTS, space="main"
        )
        return _badge(pages, rows)

    @router.api_route("/feed.atom", methods=_METHODS)
    async def feed() -> Response:
        rows = await run_in_threadpool(index.latest, limit=_RESULTS, space="main")
        return _feed(services, pages, "Latest verdicts", "", rows)

    @router.api_route("/{owner}/{name}/pull/{pull_request}/feed.atom", methods=_METHODS)
    async def pull_feed(owner: Owner, name: RepositoryPart, pull_request: PullRequest) -> Response:
        repository = f"{owner}/{name}"
        rows = await run_in_threadpool(
            index.of_pull, repository, pull_request, limit=_RESULTS, space="main"
        )
        path = f"/{repository}/pull/{pull_request}"
        return _feed(services, pages, f"{repository} #{pull_request}", path, rows)

    return router


def _found(services: Services, query: str) -> tuple[SubmissionRow, ...]:
    index = services.index
    pull = _PULL.fullmatch(query)
    if pull is not None:
        return index.of_pull(pull[1], int(pull[2]), limit=_RESULTS)
    if _REPOSITORY.fullmatch(query):
        return index.search(repository=query, limit=_RESULTS)
    if _HEX.fullmatch(query.lower()):
        return index.search(digest_prefix=query.lower(), limit=_RESULTS)
    return index.search(subject=query, limit=_RESULTS)


def _badge(pages: Pages, rows: tuple[SubmissionRow, ...]) -> Response:
    newest = next((row for row in rows if row.state == "visible"), None)
    return pages.document("badge.svg", _SVG, _FRESH, **vars(badge_of(newest)))


def _feed(
    services: Services, pages: Pages, title: str, path: str, rows: tuple[SubmissionRow, ...]
) -> Response:
    url = services.settings.public_url
    newest = rows[0].received_at if rows else services.parts.clock.now()
    return pages.document(
        "feed.xml",
        _ATOM,
        _FRESH,
        title=f"k3-eval registry: {title}",
        address=f"{url}{path}/feed.atom",
        page=f"{url}{path or '/'}",
        updated=newest.strftime("%Y-%m-%dT%H:%M:%SZ"),
        rows=rows,
    )

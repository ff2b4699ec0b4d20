"""Pages for people: latest verdicts, a pull request, a commit, a submission."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from k3server.rendering import Pages
from k3server.routes.parameters import (
    Before,
    Commit,
    Digest,
    Owner,
    PullRequest,
    RepositoryPart,
)
from k3server.routes.submissions import find_submission
from k3server.services import Services
from k3server.submission import SubmissionRow
from k3server.views.list_view import by_commit
from k3server.views.submission_view import submission_view

__all__ = ["page_routes"]

_METHODS = ["GET", "HEAD"]
_PLAYGROUND = 20
"""Submissions of the playground on pages that are about others."""


def page_routes(services: Services, pages: Pages) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(include_in_schema=False)
    index = services.index
    limit = services.settings.page_size

    @router.api_route("/", methods=_METHODS)
    async def home(before: Before = None) -> Response:
        rows = await run_in_threadpool(index.latest, limit=limit, before=before, space="main")
        playground = await run_in_threadpool(index.latest, limit=_PLAYGROUND, space="playground")
        return pages.page("home.html", rows=rows, older=_older(rows, limit), playground=playground)

    @router.api_route("/playground", methods=_METHODS)
    async def playground_page(before: Before = None) -> Response:
        rows = await run_in_threadpool(index.latest, limit=limit, before=before, space="playground")
        return pages.page("playground.html", rows=rows, older=_older(rows, limit))

    @router.api_route("/submissions/{submission_id}", methods=_METHODS)
    async def submission_page(submission_id: Digest) -> Response:
        submission = await find_submission(services, submission_id)
        view = submission_view(submission, services.settings.published_images)
        return pages.page("submission.html", view=view)

    _change_routes(router, services, pages)
    return router


def _change_routes(router: APIRouter, services: Services, pages: Pages) -> None:
    index = services.index
    limit = services.settings.page_size

    @router.api_route("/{owner}/{name}/pull/{pull_request}", methods=_METHODS)
    async def pull_page(
        owner: Owner, name: RepositoryPart, pull_request: PullRequest, before: Before = None
    ) -> Response:
        repository = f"{owner}/{name}"
        rows = await run_in_threadpool(
            index.of_pull, repository, pull_request, limit=limit, before=before, space="main"
        )
        playground = await run_in_threadpool(
            index.of_pull, repository, pull_request, limit=_PLAYGROUND, space="playground"
        )
        if not rows and not playground:
            raise pages.nothing(f"pull request {pull_request} of {repository}")
        return pages.page(
            "pull.html",
            repository=(rows or playground)[0].change.repository,
            pull_request=pull_request,
            groups=by_commit(rows),
            # What was taken back is no verdict any more, where there is another one.
            newest=next((row for row in rows if row.state == "visible"), rows[0] if rows else None),
            older=_older(rows, limit),
            playground=playground,
            good=await run_in_threadpool(index.latest_good, repository, pull_request),
        )

    @router.api_route("/{owner}/{name}/commit/{commit_sha}", methods=_METHODS)
    async def commit_page(
        owner: Owner, name: RepositoryPart, commit_sha: Commit, before: Before = None
    ) -> Response:
        repository = f"{owner}/{name}"
        rows = await run_in_threadpool(
            index.of_commit, repository, commit_sha, limit=limit, before=before
        )
        if not rows:
            raise pages.nothing(f"commit {commit_sha} of {repository}")
        return pages.page(
            "commit.html",
            repository=rows[0].change.repository,
            commit_sha=commit_sha,
            rows=rows,
            older=_older(rows, limit),
        )


def _older(rows: tuple[SubmissionRow, ...], limit: int) -> int | None:
    return rows[-1].sequence if len(rows) == limit else None

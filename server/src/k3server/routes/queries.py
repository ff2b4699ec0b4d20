"""`/api/v1/repositories/...`: the submissions of a pull request or a commit."""

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool

from k3server.routes.parameters import (
    Before,
    Commit,
    Owner,
    PullRequest,
    RepositoryPart,
    named_once,
    problems,
)
from k3server.services import Services
from k3server.wire import ListAnswer, list_answer

__all__ = ["query_routes"]


def query_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(
        prefix="/api/v1/repositories/{owner}/{name}",
        tags=["queries"],
        responses=problems(422),
        dependencies=[Depends(named_once)],
    )
    limit = services.settings.page_size
    url = services.settings.public_url

    @router.get("/pulls/{pull_request}", response_model=ListAnswer)
    async def of_pull(
        owner: Owner, name: RepositoryPart, pull_request: PullRequest, before: Before = None
    ) -> ListAnswer:
        """Submissions of a pull request, newest first; empty when there is none."""
        rows = await run_in_threadpool(
            services.index.of_pull, f"{owner}/{name}", pull_request, limit=limit, before=before
        )
        return list_answer(rows, url, limit=limit)

    @router.get("/commits/{commit_sha}", response_model=ListAnswer)
    async def of_commit(
        owner: Owner, name: RepositoryPart, commit_sha: Commit, before: Before = None
    ) -> ListAnswer:
        """Submissions of a commit, newest first; empty when there is none."""
        rows = await run_in_threadpool(
            services.index.of_commit, f"{owner}/{name}", commit_sha, limit=limit, before=before
        )
        return list_answer(rows, url, limit=limit)

    return router

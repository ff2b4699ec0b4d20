"""Compare two submissions: as a page, and as JSON for `k3-eval compare`."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from k3server.rendering import Pages
from k3server.routes.parameters import Before, Digest, problems
from k3server.routes.submissions import find_submission
from k3server.services import Services
from k3server.submission import SubmissionRow
from k3server.views.comparison_view import comparison_view
from k3server.wire import ComparisonAnswer, comparison_answer

__all__ = ["comparison_page_routes", "comparison_routes"]

_METHODS = ["GET", "HEAD"]


def comparison_routes(services: Services) -> APIRouter:
    """The route of the API, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/compare", tags=["queries"])

    @router.get(
        "/{submission_id}/{other_id}",
        response_model=ComparisonAnswer,
        responses=problems(403, 404, 422, 503),
    )
    async def compare(submission_id: Digest, other_id: Digest) -> ComparisonAnswer:
        """Both side by side; or `comparable` false and every reason why that would say nothing."""
        one = await find_submission(services, submission_id)
        other = await find_submission(services, other_id)
        return comparison_answer(comparison_view(one, other), services.settings.public_url)

    return router


def comparison_page_routes(services: Services, pages: Pages) -> APIRouter:
    """The pages, bound to the parts of one application."""
    router = APIRouter(include_in_schema=False)
    limit = services.settings.page_size

    @router.api_route("/compare/{submission_id}/{other_id}", methods=_METHODS)
    async def compare_page(submission_id: Digest, other_id: Digest) -> Response:
        one = await find_submission(services, submission_id)
        other = await find_submission(services, other_id)
        return pages.page("compare.html", view=comparison_view(one, other))

    @router.api_route("/configurations/{plan_sha256}", methods=_METHODS)
    async def configuration_page(plan_sha256: Digest, before: Before = None) -> Response:
        rows = await run_in_threadpool(
            services.index.of_plan, plan_sha256, limit=limit, before=before
        )
        if not rows:
            raise pages.nothing(f"the plan {plan_sha256}")
        return pages.page(
            "configuration.html",
            plan_sha256=plan_sha256,
            rows=rows,
            older=rows[-1].sequence if len(rows) == limit else None,
            pairs=_neighbours(rows),
        )

    return router


def _neighbours(rows: tuple[SubmissionRow, ...]) -> list[tuple[SubmissionRow, SubmissionRow]]:
    """Each submission with the next older one on the same kind of machine."""
    pairs = []
    newer: dict[str, SubmissionRow] = {}
    for row in rows:
        kind = f"{row.summary.processor} {row.summary.engine}"
        if kind in newer:
            pairs.append((newer[kind], row))
        newer[kind] = row
    return pairs

"""`/static/{name}`: the few files that every page loads."""

from fastapi import APIRouter, Response

from k3server.errors import Problem, PublicError
from k3server.rendering import Pages

__all__ = ["static_routes"]


def static_routes(pages: Pages) -> APIRouter:
    """The route, bound to the pages of one application."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    async def static_file(name: str) -> Response:
        found = pages.static(name)
        if found is None:
            raise PublicError(
                Problem(404, "There is no such page", "Expected a file of the pages, found none.")
            )
        return Response(
            found.content,
            media_type=found.media_type,
            headers={"Cache-Control": "public, max-age=86400"},
        )

    return router

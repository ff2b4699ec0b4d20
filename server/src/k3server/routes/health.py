"""`/healthz`: the registry answers and its index can be read."""

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from k3server.services import Services
from k3server.wire import HealthAnswer

__all__ = ["health_routes"]


def health_routes(services: Services) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", response_model=HealthAnswer)
    async def health() -> HealthAnswer:
        """200 when the index can be read."""
        await run_in_threadpool(services.index.latest, limit=1)
        return HealthAnswer()

    return router

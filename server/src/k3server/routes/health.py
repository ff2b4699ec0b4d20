"""`/healthz`, `/readyz` and `/metrics`: for whoever looks after the registry."""

from typing import Final

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from k3server.metrics import Metrics
from k3server.routes.parameters import problems
from k3server.services import Services
from k3server.wire import HealthAnswer

__all__ = ["health_routes"]

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_NO_BLOB: Final = "0" * 64


def health_routes(services: Services, metrics: Metrics) -> APIRouter:
    """The routes, bound to the parts of one application."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", response_model=HealthAnswer, responses=problems(503))
    async def health() -> HealthAnswer:
        """200 when the index can be read."""
        await run_in_threadpool(services.index.latest, limit=1)
        return HealthAnswer()

    @router.get("/readyz", response_model=HealthAnswer, responses=problems(503))
    async def ready() -> HealthAnswer:
        """200 when index and store both answer, so that requests can be served."""
        await run_in_threadpool(services.index.latest, limit=1)
        await run_in_threadpool(services.store.size, _NO_BLOB)
        return HealthAnswer()

    @router.get("/metrics", response_class=Response, responses={200: {"content": {_TEXT: {}}}})
    async def show_metrics() -> Response:
        """Counts and times in the text format of Prometheus."""
        waiting = await run_in_threadpool(services.parts.outbox.waiting)
        gauges = {
            "k3_registry_outbox_waiting": ("Pull requests to tell the forge about.", waiting),
            "k3_registry_submissions_waiting": (
                "Submissions that wait for a verifier.",
                services.intake.waiting,
            ),
        }
        text = metrics.text({name: (what, float(value)) for name, (what, value) in gauges.items()})
        return Response(text, media_type=_TEXT)

    return router

"""`/api/v1/board` and `/board`: evidence that is wanted, and who brings it."""

import secrets
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from k3server.board_ports import Wanted
from k3server.errors import Problem, PublicError
from k3server.rendering import Pages
from k3server.request_body import read_record
from k3server.routes.parameters import WantedId, json_body, problems
from k3server.services import Services
from k3server.wire_board import BoardAnswer, WantedAnswer, WantedRequest, wanted_answer

__all__ = ["board_page_routes", "board_routes"]

_BODY_PROBLEMS = (400, 401, 403, 408, 411, 413, 422, 503, 507)


def board_routes(services: Services) -> APIRouter:
    """The routes of the API, bound to the parts of one application."""
    router = APIRouter(prefix="/api/v1/board", tags=["board"])
    parts = services.parts

    @router.get("", response_model=BoardAnswer, responses=problems(503))
    async def read_board() -> BoardAnswer:
        """What is wanted, the newest first."""
        found = await run_in_threadpool(parts.board.wanted, limit=services.settings.board_size)
        now = parts.clock.now()
        return BoardAnswer(wanted=tuple(wanted_answer(each, now) for each in found))

    @router.post(
        "",
        response_model=WantedAnswer,
        responses=problems(*_BODY_PROBLEMS),
        openapi_extra=json_body(
            WantedRequest,
            repository="vllm-project/vllm",
            pull_request=12345,
            commit_sha="0123456789abcdef0123456789abcdef01234567",
            tier="standard",
            subject="k3-nvfp4",
            note="On a GB300, please.",
        ),
    )
    async def ask_for(request: Request) -> WantedAnswer:
        """Put something on the board; needs a token with the scope `moderate`."""
        header = request.headers.get("authorization")
        token = await services.identification.required_token(header, "moderate")
        asked = await read_record(request, services.settings, WantedRequest)
        now = parts.clock.now()
        wanted = Wanted(
            wanted_id=secrets.token_hex(8),
            change=asked.change(),
            tier=asked.tier,
            subject=asked.subject,
            cell_id=asked.cell_id or "",
            note=asked.note,
            asked_by=f"token:{token.account}",
            asked_at=now,
        )
        return wanted_answer(await run_in_threadpool(parts.board.ask, wanted), now)

    _claim_routes(router, services)
    return router


def _claim_routes(router: APIRouter, services: Services) -> None:
    parts = services.parts

    @router.post(
        "/{wanted_id}/claim",
        response_model=WantedAnswer,
        responses=problems(401, 403, 404, 409, 422, 503, 507),
    )
    async def claim(wanted_id: WantedId, request: Request) -> WantedAnswer:
        """Say that you bring it, or that you need longer; ends on its own after some days."""
        header = request.headers.get("authorization")
        token = await services.identification.required_token(header, "claim")
        now = parts.clock.now()
        until = now + timedelta(seconds=services.settings.claim_lifetime_s)
        identity = f"token:{token.account}"
        try:
            got = await run_in_threadpool(
                parts.board.claim, wanted_id, identity, now=now, until=until
            )
        except KeyError:
            raise _no_such(wanted_id) from None
        found = await _found(services, wanted_id)
        if not got:
            raise _taken(found)
        return wanted_answer(found, now)

    @router.post(
        "/{wanted_id}/release",
        response_model=WantedAnswer,
        responses=problems(401, 403, 404, 409, 422, 503, 507),
    )
    async def release(wanted_id: WantedId, request: Request) -> WantedAnswer:
        """Give a claim back; a token with the scope `moderate` gives back anybody's."""
        header = request.headers.get("authorization")
        token = await services.identification.required_token(header, "claim")
        now = parts.clock.now()
        whose = None if "moderate" in token.scopes else f"token:{token.account}"
        try:
            given = await run_in_threadpool(parts.board.release, wanted_id, whose, now)
        except KeyError:
            raise _no_such(wanted_id) from None
        if not given:
            raise _not_claimed()
        return wanted_answer(await _found(services, wanted_id), now)


def board_page_routes(services: Services, pages: Pages) -> APIRouter:
    """The page, bound to the parts of one application."""
    router = APIRouter(include_in_schema=False)
    parts = services.parts

    @router.api_route("/board", methods=["GET", "HEAD"])
    async def board_page() -> Response:
        found = await run_in_threadpool(parts.board.wanted, limit=services.settings.board_size)
        return pages.page("board.html", wanted=found, now=parts.clock.now())

    return router


async def _found(services: Services, wanted_id: str) -> Wanted:
    found = await run_in_threadpool(services.parts.board.one, wanted_id)
    if found is None:
        raise _no_such(wanted_id)
    return found


def _no_such(wanted_id: str) -> PublicError:
    return PublicError(
        Problem(
            404,
            "This is not on the board",
            f"Expected something on the board with the id {wanted_id}, found nothing. "
            "Look at /board for what is wanted now.",
        )
    )


def _taken(found: Wanted) -> PublicError:
    until = (
        "" if found.claimed_until is None else f" until {found.claimed_until:%Y-%m-%d %H:%M} UTC"
    )
    return PublicError(
        Problem(
            409,
            "Somebody else brings this",
            f"Expected nobody to work on this, found {found.claimed_by}{until}. "
            "Choose something else, or ask them to release it.",
        )
    )


def _not_claimed() -> PublicError:
    return PublicError(
        Problem(
            409,
            "This is not yours to release",
            "Expected a claim of yours, found none. It may have ended on its own.",
        )
    )

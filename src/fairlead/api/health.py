"""/livez, /readyz and /metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.api import schemas
from fairlead.api.answers import JSONResponse
from fairlead.api.office import office_of
from fairlead.api.problems import Problem
from fairlead.errors import Words

router = APIRouter(tags=["health"])
_SAYS_SO: dict[int | str, dict[str, Any]] = {
    200: {"description": "yes", "content": {"application/json": {"example": {"status": "ok"}}}}
}


@router.get("/livez", responses={**_SAYS_SO, **schemas.problems()})
async def livez(_request: Request) -> Response:
    """Whether the server answers at all."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", responses={**_SAYS_SO, **schemas.problems("unavailable")})
async def readyz(request: Request) -> Response:
    """Whether it can accept documents: the store answers, there is room, the workers get on.

    Nor is it stopping.
    """
    office = office_of(request)
    if office.hub.is_closing or not office.is_ready():
        raise Problem(
            "unavailable",
            Words("the server is stopping, or its workers have ended or are held up"),
        )
    if not await office.ask(office.fairlead.folder.has_room):
        raise Problem("unavailable", Words("the disk of the server has next to no room left"))
    await office.ask(office.fairlead.totals)
    return JSONResponse({"status": "ok"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"description": "numbers for Prometheus", "content": {"text/plain": {}}},
        **schemas.problems(),
    },
)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus. They name no customer."""
    office = office_of(request)
    return Response(
        await office.ask(office.metrics.text),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )

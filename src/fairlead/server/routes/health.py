"""/livez, /readyz and /metrics: liveness, readiness and numbers for Prometheus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.server import schemas
from fairlead.server.context import context_of
from fairlead.server.problems import Problem

router = APIRouter(tags=["health"])
_OK: dict[int | str, dict[str, Any]] = {
    200: {"description": "yes", "content": {"application/json": {"example": {"status": "ok"}}}}
}


@router.get("/livez", operation_id="getLiveness", responses={**_OK, **schemas.problems()})
async def livez(_request: Request) -> Response:
    """Whether the server responds."""
    return schemas.JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="getReadiness",
    responses={**_OK, **schemas.problems("unavailable")},
)
async def readyz(request: Request) -> Response:
    """Whether the server can accept documents.

    The store responds, the disk has room, the workers make progress, and the server is not
    stopping.
    """
    context = context_of(request)
    if context.event_feed.is_closing or not context.is_ready():
        raise Problem(
            "unavailable",
            Message("the server is stopping, or its workers have stopped or hang"),
        )
    if await context.ask(context.fairlead.folder.is_read_only):
        raise Problem("unavailable", Message("the disk of the server is read-only"))
    if not await context.ask(context.fairlead.has_room):
        raise Problem("unavailable", Message("the disk of the server is almost full"))
    await context.fetch(context.fairlead.check_places)
    await context.ask(context.fairlead.queue.totals)
    return schemas.JSONResponse({"status": "ok"})


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={
        200: {"description": "numbers for Prometheus", "content": {"text/plain": {}}},
        **schemas.problems(),
    },
)
async def metrics(request: Request) -> Response:
    """Metrics for Prometheus. They name no customers."""
    context = context_of(request)
    return Response(
        await context.ask(context.metrics.text),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )

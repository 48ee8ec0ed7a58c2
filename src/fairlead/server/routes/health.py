"""/livez, /readyz and /metrics: liveness, readiness and numbers for Prometheus."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.policy.capacity import is_blocked
from fairlead.server import schemas
from fairlead.server.context import context_of
from fairlead.server.problems import Problem

router = APIRouter(tags=["health"])


def _yes(**facts: Any) -> dict[int | str, dict[str, Any]]:
    example = {"status": "ok"} | facts
    return {200: {"description": "yes", "content": {"application/json": {"example": example}}}}


_PROBLEM = "pipeline invoices cannot run here: step invoices:fields: there is no module invoices"


@router.get("/livez", operation_id="getLiveness", responses={**_yes(), **schemas.problems()})
async def livez(_request: Request) -> Response:
    """Whether the server responds."""
    return schemas.JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    operation_id="getReadiness",
    responses={**_yes(problems=[_PROBLEM]), **schemas.problems("unavailable")},
)
async def readyz(request: Request) -> Response:
    """Whether the server can accept documents, and the pipelines that cannot run.

    The store responds, the disk has room, the workers make progress, a pipeline can run, and the
    server is not stopping.
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
    capacity = await context.ask(context.fairlead.queue.reported_capacity)
    if is_blocked(capacity, context.settings().pipelines):
        raise Problem("unavailable", capacity.problems[0].message)
    problems = [problem.message for problem in capacity.problems]
    return schemas.JSONResponse({"status": "ok", "problems": problems})


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

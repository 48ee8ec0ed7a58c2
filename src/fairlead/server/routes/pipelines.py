"""/v1/pipelines, for operators only: pipelines with their queues and quotas."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.model.pipeline_figures import PipelineList
from fairlead.server import schemas
from fairlead.server.context import authenticated_operator

router = APIRouter(prefix="/v1", tags=["operators"])


@router.get(
    "/pipelines",
    operation_id="listPipelines",
    responses=schemas.answers(200, PipelineList, "all pipelines"),
)
async def list_all(request: Request) -> Response:
    """List pipelines: steps, quotas and their use, documents by state, and the use of steps."""
    context, _ = await authenticated_operator(request)
    queue = context.fairlead.queue
    pipelines, capacity = await context.ask(queue.pipelines), await context.ask(queue.capacity)
    return schemas.JSONResponse(PipelineList(pipelines, capacity))

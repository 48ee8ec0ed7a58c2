"""/v1/batches: documents that were submitted together."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.model.batches import Batch
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated
from fairlead.storage.sql.batches import unknown_batch

router = APIRouter(prefix="/v1/batches", tags=["documents"])


@router.get(
    "/{batch_id}",
    operation_id="getBatch",
    responses=schemas.answers(200, Batch, "the batch", "unknown-batch"),
)
async def show(request: Request, batch_id: str) -> Response:
    """The documents of a batch by state, and when the last one is expected to end."""
    context, caller = await authenticated(request)
    return schemas.JSONResponse(await context.ask(_visible, context, caller, batch_id))


@router.post(
    "/{batch_id}/cancel",
    operation_id="cancelBatch",
    responses=schemas.answers(200, Batch, "the batch, without pending documents", "unknown-batch"),
)
async def cancel(request: Request, batch_id: str) -> Response:
    """Cancel the pending documents of a batch; ended ones are unchanged."""
    context, caller = await authenticated(request)
    await context.ask(_visible, context, caller, batch_id)  # raises if it may not be seen
    batch = await context.ask(context.fairlead.batches.cancel, batch_id, by=caller.key_id)
    return schemas.JSONResponse(batch)


def _visible(context: ServerContext, caller: Caller, batch_id: str) -> Batch:
    """The batch; raises if it is unknown or belongs to another customer."""
    batch = context.fairlead.batches.show(batch_id)
    if not caller.may_see(batch.customer):
        raise unknown_batch(batch_id)
    return batch

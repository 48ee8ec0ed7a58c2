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
    "/{id_}",
    operation_id="getBatch",
    responses=schemas.answers(200, Batch, "the batch", "unknown-batch"),
)
async def show(request: Request, id_: str) -> Response:
    """How far the documents of a batch are, and when they are expected to have ended."""
    context, caller = await authenticated(request)
    return schemas.JSONResponse(await context.ask(_visible, context, caller, id_))


@router.post(
    "/{id_}/cancel",
    operation_id="cancelBatch",
    responses=schemas.answers(200, Batch, "nothing of it is pending", "unknown-batch"),
)
async def cancel(request: Request, id_: str) -> Response:
    """Cancel the documents of a batch that are pending. Those that have ended stay."""
    context, caller = await authenticated(request)
    await context.ask(_visible, context, caller, id_)
    batch = await context.ask(context.fairlead.batches.cancel, id_, by=caller.key_id)
    return schemas.JSONResponse(batch)


def _visible(context: ServerContext, caller: Caller, id_: str) -> Batch:
    """The batch, if it is the caller's; another one's is as one that never was."""
    batch = context.fairlead.batches.show(id_)
    if not caller.may_see(batch.customer):
        raise unknown_batch(id_)
    return batch

"""/v1/policy, for operators only: the current policy, and switching the live queue."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.model.documents import PolicyInForce, Switched
from fairlead.server import schemas
from fairlead.server.context import authenticated_operator

router = APIRouter(prefix="/v1", tags=["operators"])


@router.get(
    "/policy",
    operation_id="getPolicy",
    responses=schemas.answers(200, PolicyInForce, "the policy in force"),
)
async def show(request: Request) -> Response:
    """The policy that decides the order of the queue."""
    context, _ = await authenticated_operator(request)
    return schemas.JSONResponse(PolicyInForce(await context.ask(context.fairlead.queue.policy)))


@router.put(
    "/policy",
    operation_id="setPolicy",
    responses=schemas.answers(200, Switched, "what changed"),
    openapi_extra=schemas.takes(schemas.PolicyWanted),
)
async def switch(request: Request) -> Response:
    """Switch the live queue to a policy, in one transaction. Its present one changes nothing."""
    context, caller = await authenticated_operator(request)
    name = (await schemas.read_body(request, schemas.PolicyWanted)).policy
    switched = await context.ask(context.fairlead.queue.use_policy, name, by=caller.key_id)
    return schemas.JSONResponse(switched or Switched(name, name, 0, 0))

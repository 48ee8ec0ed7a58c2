"""/v1/policy, for operators only: the policy in force, and switching a live queue."""

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
async def use(request: Request) -> Response:
    """Switch the live queue to a policy, in one transaction. Its present one changes nothing."""
    context, caller = await authenticated_operator(request)
    wanted = (await schemas.read_body(request, schemas.PolicyWanted)).policy
    done = await context.ask(context.fairlead.queue.use_policy, wanted, by=caller.key_id)
    return schemas.JSONResponse(done or Switched(wanted, wanted, 0, 0))

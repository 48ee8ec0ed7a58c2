"""/v1/me, for every caller; /v1/keys and /v1/login-links, for operators only."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict
from starlette.responses import Response

from fairlead.errors import Message
from fairlead.model.json import to_dict
from fairlead.model.keys import Key, Keys, LoginLink, NewKey
from fairlead.model.usage import Me
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated, authenticated_operator
from fairlead.server.problems import Problem

router = APIRouter(prefix="/v1", tags=["keys"])
_OWNERS = ("customer", "service", "viewer", "worker")


@router.get("/me", operation_id="getMe", responses=schemas.answers(200, Me, "whose the key is"))
async def me(request: Request) -> Response:
    """Whose the key is and the limits of a request; for a customer, also its standing."""
    context, caller = await authenticated(request)
    customers = context.fairlead.customers
    if caller.customer is None:
        key = await context.ask(context.fairlead.store.key, caller.key_id)
        name = key.name or key.role.value
        fields = to_dict(Me(key.role.value, name, caller.key_id, customers.limits()))
        present = {name: value for name, value in fields.items() if value is not None}
        return schemas.JSONResponse(present | {"customer": None})
    standing = await context.ask(customers.standing, caller.customer)
    return schemas.JSONResponse(Me("customer", caller.customer, caller.key_id, **asdict(standing)))


@router.get(
    "/keys",
    operation_id="listKeys",
    responses=schemas.answers(200, Keys, "keys", "unknown-customer"),
)
async def list_all(
    request: Request,
    *,
    customer: Annotated[str | None, Query(max_length=200)] = None,
    operator: bool = False,
) -> Response:
    """List keys without their secrets, oldest first: of one customer, of operators, or all."""
    context, _ = await authenticated_operator(request)
    keys = await context.ask(context.fairlead.keys.list, customer, operators=operator)
    return schemas.JSONResponse(Keys(keys))


@router.post(
    "/keys",
    operation_id="createKey",
    status_code=201,
    responses=schemas.answers(201, NewKey, "the key, shown this once"),
    openapi_extra=schemas.takes(schemas.KeyWanted),
)
async def add(request: Request) -> Response:
    """Create a key for a customer, which is added if it is new, or for another role.

    A `service` submits and reads for all customers, a `viewer` reads everything and changes
    nothing, a `worker` processes documents; each has a name. An operator may do everything.
    """
    context, caller = await authenticated_operator(request)
    options = asdict(await schemas.read_body(request, schemas.KeyWanted))
    is_operator = options.pop("operator")
    has_owner = any(options[name] is not None for name in _OWNERS)
    if has_owner == is_operator:
        text = Message("give either `customer` or `operator`: true")
        raise Problem("invalid-request", text)
    return await new_key(context, caller, **options)


async def new_key(context: ServerContext, caller: Caller, **options: Any) -> Response:
    """Create a key with the options of `Keys.add`, and respond with it."""
    secret, key = await context.ask(context.fairlead.keys.add, by=caller.key_id, **options)
    headers = {"Cache-Control": "no-store"}
    return schemas.JSONResponse(NewKey(secret, **asdict(key)), 201, headers)


@router.post(
    "/login-links",
    operation_id="createLoginLink",
    status_code=201,
    responses=schemas.answers(201, LoginLink, "the link, which works once"),
)
async def login_link(request: Request) -> Response:
    """Create a login link for the dashboard, for the operator key of the data folder."""
    context, _ = await authenticated_operator(request)
    link = LoginLink(f"/login?token={context.auth.new_login_token()}")
    return schemas.JSONResponse(link, 201, {"Cache-Control": "no-store"})


@router.delete(
    "/keys/{key_id}",
    operation_id="revokeKey",
    responses=schemas.answers(200, Key, "revoked", "unknown-key"),
)
async def revoke(request: Request, key_id: str) -> Response:
    """Revoke any key immediately. Revoking it again changes nothing."""
    context, caller = await authenticated_operator(request)
    key = await context.ask(context.fairlead.keys.revoke, key_id, by=caller.key_id)
    context.auth.revoked(key.id)
    return schemas.JSONResponse(key)

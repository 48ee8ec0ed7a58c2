"""/v1/customers and /v1/audit, for operators only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict
from starlette.responses import Response

from fairlead.errors import CustomerExists, Message, UnknownKey
from fairlead.model.access_keys import Keys, NewKey
from fairlead.model.customers import Customer, Customers
from fairlead.model.documents import Audit
from fairlead.server import schemas
from fairlead.server.context import ServerContext, context_of
from fairlead.server.problems import Problem
from fairlead.server.responses import JSONResponse

router = APIRouter(prefix="/v1", tags=["operators"])
_ONE = schemas.answers(200, Customer, "the customer", "forbidden", "unknown-customer")


@router.get("/customers", responses=schemas.answers(200, Customers, "all customers", "forbidden"))
async def every(request: Request) -> Response:
    """All customers by name, and how fair the queue is."""
    context = context_of(request)
    await context.auth.operator(request)
    return JSONResponse(await context.ask(_every, context))


def _every(context: ServerContext) -> Customers:
    return Customers(*context.fairlead.queue.overview())


@router.post(
    "/customers",
    status_code=201,
    responses=schemas.answers(201, Customer, "it is known now", "forbidden", "customer-exists"),
    openapi_extra=schemas.takes(schemas.NewCustomer),
)
async def add(request: Request) -> Response:
    """Make a customer known, with settings of its own if some are given."""
    context = context_of(request)
    caller = await context.auth.operator(request)
    new = schemas.sent_fields(await schemas.read_body(request, schemas.NewCustomer))
    name = new.pop("name")
    shown = await context.ask(_add, context, name, new, caller.key_id)
    return JSONResponse(shown, 201, {"Location": f"/v1/customers/{quote(name, safe='')}"})


def _add(context: ServerContext, name: str, settings: dict[str, Any], by: str) -> Customer:
    try:
        return context.fairlead.customers.add(name, must_be_new=True, by=by, **settings)
    except CustomerExists:
        raise Problem(
            "customer-exists",
            Message("customer {name} already exists; change it with PATCH", name=repr(name)),
        ) from None


def _add_decision(name: str, decide: Callable[..., Customer], help_text: str) -> None:
    """A decision that needs nothing but the customer's name."""

    @router.post(f"/customers/{{name}}/{name}", name=name, description=help_text, responses=_ONE)
    async def decision(request: Request, name: str) -> Response:
        context = context_of(request)
        caller = await context.auth.operator(request)
        found = await context.ask(decide, context.fairlead, name, by=caller.key_id)
        return JSONResponse(found)


_add_decision(
    "pause",
    lambda fairlead, name, by: fairlead.customers.pause(name, by=by),
    "Let its documents wait; new ones are accepted all the same.",
)
_add_decision(
    "resume",
    lambda fairlead, name, by: fairlead.customers.resume(name, by=by),
    "Let its documents run.",
)
_add_decision(
    "reset",
    lambda fairlead, name, by: fairlead.customers.reset(name, by=by),
    "Forget its count: the next document is checked as its first.",
)


@router.get(
    "/customers/{name}/keys",
    responses=schemas.answers(200, Keys, "its keys", "forbidden", "unknown-customer"),
)
async def keys(request: Request, name: str) -> Response:
    """The customer's keys, without their secrets."""
    context = context_of(request)
    await context.auth.operator(request)
    return JSONResponse(Keys(await context.ask(context.fairlead.keys.list, name)))


@router.post(
    "/customers/{name}/keys",
    status_code=201,
    responses=schemas.answers(
        201, NewKey, "the key, shown this once", "forbidden", "unknown-customer"
    ),
)
async def add_key(request: Request, name: str) -> Response:
    """A new key for the customer."""
    context = context_of(request)
    caller = await context.auth.operator(request)
    await context.ask(context.fairlead.store.customer, name)  # a misspelt one is not made
    key, made = await context.ask(context.fairlead.keys.add, name, by=caller.key_id)
    headers = {"Cache-Control": "no-store"}
    return JSONResponse(NewKey(key, **asdict(made)), 201, headers)


@router.delete(
    "/customers/{name}/keys/{key_id}",
    status_code=204,
    responses=schemas.answers(
        204, None, "it opens nothing any more", "forbidden", "unknown-customer", "unknown-key"
    ),
)
async def revoke(request: Request, name: str, key_id: str) -> Response:
    """Let a key open nothing any more. One that was revoked stays so."""
    context = context_of(request)
    caller = await context.auth.operator(request)
    await context.ask(_revoke, context, name, key_id, caller.key_id)
    context.auth.revoked(key_id)
    return Response(status_code=204)


def _revoke(context: ServerContext, name: str, key_id: str, by: str) -> None:
    if key_id not in {each.id for each in context.fairlead.keys.list(name)}:
        raise UnknownKey(
            Message(
                "customer {name} has no API key with the id {id}",
                name=repr(name),
                id=repr(key_id[:100]),
            )
        )
    context.fairlead.keys.revoke(key_id, by=by)


@router.get("/customers/{name}", responses=_ONE)
async def one(request: Request, name: str) -> Response:
    """All about one customer."""
    context = context_of(request)
    await context.auth.operator(request)
    return JSONResponse(await context.ask(context.fairlead.customers.show, name))


@router.patch("/customers/{name}", responses=_ONE, openapi_extra=schemas.takes(schemas.Changes))
async def change(request: Request, name: str) -> Response:
    """Change its weight, account, caps, interval or thresholds; what is not sent stays."""
    context = context_of(request)
    caller = await context.auth.operator(request)
    changes = schemas.sent_fields(await schemas.read_body(request, schemas.Changes))
    found = await context.ask(context.fairlead.customers.set, name, by=caller.key_id, **changes)
    context.auth.forget()
    return JSONResponse(found)


@router.get("/audit", responses=schemas.answers(200, Audit, "decisions, newest first", "forbidden"))
async def audit(
    request: Request,
    *,
    cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Who decided what and when: keys by their ids. `cursor` is the `next` of the page before."""
    context = context_of(request)
    await context.auth.operator(request)
    found = await context.ask(context.fairlead.store.audit, cursor, limit + 1)
    following = found[limit - 1].seq if len(found) > limit else None
    return JSONResponse(Audit(found[:limit], following))

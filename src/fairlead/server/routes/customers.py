"""/v1/customers and /v1/audit, for operators only."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import CustomerExists, Message, UnknownKey
from fairlead.model.customers import Customer, Customers
from fairlead.model.documents import Audit
from fairlead.model.keys import Key, Keys, NewKey, NewLink, Role
from fairlead.model.usage import CustomerStanding
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, authenticated, authenticated_operator
from fairlead.server.problems import Problem
from fairlead.server.routes.keys import new_key

router = APIRouter(prefix="/v1", tags=["operators"])
_CUSTOMER = schemas.answers(200, Customer, "the customer", "unknown-customer")


@router.get(
    "/customers",
    operation_id="listCustomers",
    responses=schemas.answers(200, Customers, "all customers"),
)
async def list_all(request: Request) -> Response:
    """List customers by name, with the fairness figures of the queue."""
    context, _ = await authenticated_operator(request)
    customers, fairness = await context.ask(context.fairlead.queue.overview)
    return schemas.JSONResponse(Customers(customers, fairness))


@router.post(
    "/customers",
    operation_id="createCustomer",
    status_code=201,
    responses=schemas.answers(201, Customer, "the new customer", "customer-exists"),
    openapi_extra=schemas.takes(schemas.NewCustomer),
)
async def add(request: Request) -> Response:
    """Add a customer, with settings of its own if the body has any."""
    context, caller = await authenticated_operator(request)
    settings = schemas.sent_fields(await schemas.read_body(request, schemas.NewCustomer))
    name, add_customer = settings.pop("name"), context.fairlead.customers.add
    try:
        customer = await context.ask(
            add_customer, name, must_be_new=True, by=caller.key_id, **settings
        )
    except CustomerExists:
        text = Message("customer {name} already exists; change it with PATCH", name=repr(name))
        raise Problem("customer-exists", text) from None
    location = {"Location": f"/v1/customers/{quote(name, safe='')}"}
    return schemas.JSONResponse(customer, 201, location)


_DECISIONS = {
    "pause": "Pause a customer: its documents wait, and new ones are still accepted.",
    "resume": "Resume a paused customer.",
    "reset": "Reset a customer's count: the next document is checked as its first.",
    "unblock": "Accept documents of a blocked customer again.",
}
"""Methods of `fairlead.customers` that need nothing but a name, with their descriptions."""


def _add_decision(decision: str, description: str) -> None:
    @router.post(
        f"/customers/{{name}}/{decision}",
        operation_id=f"{decision}Customer",
        name=decision,
        description=description,
        responses=_CUSTOMER,
    )
    async def decide(request: Request, name: str) -> Response:
        context, caller = await authenticated_operator(request)
        method = getattr(context.fairlead.customers, decision)
        return schemas.JSONResponse(await context.ask(method, name, by=caller.key_id))


for _decision, _description in _DECISIONS.items():
    _add_decision(_decision, _description)


@router.post(
    "/customers/{name}/block",
    operation_id="blockCustomer",
    responses=_CUSTOMER,
    openapi_extra=schemas.takes(schemas.BlockWanted),
)
async def block(request: Request, name: str) -> Response:
    """Refuse a customer's new documents, with a reason for it; those it has are processed."""
    context, caller = await authenticated_operator(request)
    body = await schemas.read_body(request, schemas.BlockWanted)
    customer = await context.ask(
        context.fairlead.customers.block, name, reason=body.reason, by=caller.key_id
    )
    return schemas.JSONResponse(customer)


@router.get(
    "/customers/{name}/keys",
    operation_id="listCustomerKeys",
    responses=schemas.answers(200, Keys, "the customer's keys", "unknown-customer"),
)
async def keys(request: Request, name: str) -> Response:
    """List the customer's keys, without their secrets."""
    context, _ = await authenticated_operator(request)
    return schemas.JSONResponse(Keys(await context.ask(context.fairlead.keys.list, name)))


@router.post(
    "/customers/{name}/keys",
    operation_id="createCustomerKey",
    status_code=201,
    responses=schemas.answers(201, NewKey, "the key, shown this once", "unknown-customer"),
)
async def add_key(request: Request, name: str) -> Response:
    """Create a key for the customer."""
    context, caller = await authenticated_operator(request)
    await context.ask(context.fairlead.store.customer, name)  # raises if it is unknown
    return await new_key(context, caller, customer=name)


@router.delete(
    "/customers/{name}/keys/{key_id}",
    operation_id="revokeCustomerKey",
    status_code=204,
    responses=schemas.answers(204, None, "revoked", "unknown-customer", "unknown-key"),
)
async def revoke(request: Request, name: str, key_id: str) -> Response:
    """Revoke a key immediately. Revoking it again changes nothing."""
    context, caller = await authenticated_operator(request)
    keys = await context.ask(context.fairlead.keys.list, name)
    if key_id not in {key.id for key in keys}:
        id_ = repr(key_id[:100])
        text = Message("customer {name} has no API key with the id {id}", name=repr(name), id=id_)
        raise UnknownKey(text)
    await context.ask(context.fairlead.keys.revoke, key_id, by=caller.key_id)
    context.auth.revoked(key_id)
    return Response(status_code=204)


@router.post(
    "/customers/{name}/links",
    operation_id="createCustomerLink",
    status_code=201,
    responses=schemas.answers(201, NewLink, "the link, shown this once", "unknown-customer"),
    openapi_extra=schemas.takes(schemas.LinkWanted, required=False),
)
async def add_link(request: Request, name: str) -> Response:
    """Create a link to the customer's page that needs no key; valid for 30 days by default."""
    context, caller = await _operator_or_service(request)
    body = schemas.LinkWanted()
    if await request.body():
        body = await schemas.read_body(request, schemas.LinkWanted)
    link = await context.ask(
        context.fairlead.customers.link, name, days=body.days, by=caller.key_id
    )
    return schemas.JSONResponse(link, 201, {"Cache-Control": "no-store"})


@router.get(
    "/customers/{name}/links",
    operation_id="listCustomerLinks",
    responses=schemas.answers(200, Keys, "the customer's links", "unknown-customer"),
)
async def links(request: Request, name: str) -> Response:
    """List the valid links to the customer's page, without their secrets."""
    context, _ = await _operator_or_service(request)
    return schemas.JSONResponse(Keys(await context.ask(context.fairlead.customers.links, name)))


@router.delete(
    "/customers/{name}/links/{link}",
    operation_id="revokeCustomerLink",
    responses=schemas.answers(200, Key, "revoked", "unknown-customer", "unknown-key"),
)
async def revoke_link(request: Request, name: str, link: str) -> Response:
    """Revoke a link by its id. Revoking it again changes nothing."""
    context, caller = await _operator_or_service(request)
    key = await context.ask(context.fairlead.customers.revoke_link, name, link, by=caller.key_id)
    context.auth.revoked(key.id)
    return schemas.JSONResponse(key)


async def _operator_or_service(request: Request) -> tuple[ServerContext, Caller]:
    context, caller = await authenticated(request)
    if caller.role is not Role.SERVICE:
        await context.auth.operator(request)
    return context, caller


@router.get(
    "/customers/{name}/standing",
    operation_id="getCustomerStanding",
    responses=schemas.answers(200, CustomerStanding, "its standing", "unknown-customer"),
)
async def standing(request: Request, name: str) -> Response:
    """Where a customer stands: count, next priority, pending documents, and usage of today."""
    context, _ = await _operator_or_service(request)
    return schemas.JSONResponse(await context.ask(context.fairlead.customers.standing, name))


@router.delete(
    "/customers/{name}",
    operation_id="deleteCustomer",
    status_code=204,
    responses=schemas.answers(204, None, "deleted", "unknown-customer"),
)
async def delete(request: Request, name: str) -> Response:
    """Delete a customer with everything: documents, texts, keys, webhooks, its name in events.

    Its usage stays as numbers.
    """
    context, caller = await authenticated_operator(request)
    await context.fetch(context.fairlead.customers.delete, name, by=caller.key_id)
    context.auth.forget()
    return Response(status_code=204)


@router.get("/customers/{name}", operation_id="getCustomer", responses=_CUSTOMER)
async def show(request: Request, name: str) -> Response:
    """Show a customer: settings, count, documents by state."""
    context, _ = await authenticated_operator(request)
    return schemas.JSONResponse(await context.ask(context.fairlead.customers.show, name))


@router.patch(
    "/customers/{name}",
    operation_id="updateCustomer",
    responses=_CUSTOMER,
    openapi_extra=schemas.takes(schemas.Changes),
)
async def change(request: Request, name: str) -> Response:
    """Change a customer's settings; those that are not sent stay."""
    context, caller = await authenticated_operator(request)
    changes = schemas.sent_fields(await schemas.read_body(request, schemas.Changes))
    customer = await context.ask(context.fairlead.customers.set, name, by=caller.key_id, **changes)
    context.auth.forget()
    return schemas.JSONResponse(customer)


@router.get(
    "/audit",
    operation_id="listAuditEntries",
    responses=schemas.answers(200, Audit, "decisions, newest first"),
)
async def audit(
    request: Request,
    *,
    cursor: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List who decided what, and when; keys by id. `cursor` is the `next` of the page before."""
    context, _ = await authenticated_operator(request)
    events = await context.ask(context.fairlead.store.audit, cursor, limit + 1)
    following = events[limit - 1].seq if len(events) > limit else None
    return schemas.JSONResponse(Audit(events[:limit], following))

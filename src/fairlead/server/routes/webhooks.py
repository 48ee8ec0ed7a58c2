"""/v1/webhooks: where a customer is told what becomes of its documents.

A customer sees and changes its own; an operator those of all customers.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict
from starlette.responses import Response

from fairlead.app import Fairlead
from fairlead.errors import Message, UnknownDelivery
from fairlead.model.installation import Page
from fairlead.model.webhooks import (
    DEFAULT_KINDS,
    Deliveries,
    Delivery,
    Webhook,
    Webhooks,
    WebhookWithSecret,
)
from fairlead.server import schemas
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext, context_of
from fairlead.server.problems import Problem, invalid_cursor
from fairlead.server.responses import JSONResponse

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])
_ONE = schemas.answers(200, Webhook, "the webhook", "unknown-webhook")
_DELIVERY = schemas.answers(202, Delivery, "it will be sent", "unknown-webhook")


async def _let_in(request: Request) -> tuple[ServerContext, Caller]:
    context = context_of(request)
    return context, await context.auth.caller(request)


@router.get("", responses=schemas.answers(200, Webhooks, "the webhooks"))
async def every(request: Request) -> Response:
    """All webhooks that the key may see, oldest first."""
    context, caller = await _let_in(request)
    found = await context.ask(context.fairlead.webhooks.list, caller.customer)
    return JSONResponse(Webhooks(found))


@router.post(
    "",
    status_code=201,
    responses=schemas.answers(
        *(201, WebhookWithSecret, "the webhook, with its secret this once"),
        "unknown-customer",
    ),
    openapi_extra=schemas.takes(schemas.NewWebhook),
)
async def add(request: Request) -> Response:
    """Ask to be told. An operator says for which customer; a customer's key says it itself."""
    context, caller = await _let_in(request)
    new = await schemas.read_body(request, schemas.NewWebhook)
    customer = caller.customer or new.customer
    if customer is None or new.customer not in (None, customer):
        raise Problem(
            "invalid-request",
            Message(
                "`customer` is required with an operator's key, and not allowed with a "
                "customer's key"
            ),
        )
    kinds = DEFAULT_KINDS if new.kinds is None else new.kinds
    made, secret = await context.ask(
        context.fairlead.webhooks.add, new.url, kinds, customer=customer, by=caller.key_id
    )
    headers = {"Location": f"/v1/webhooks/{made.id}", "Cache-Control": "no-store"}
    return JSONResponse(WebhookWithSecret(**asdict(made), secret=secret), 201, headers)


@router.get("/{id_}", responses=_ONE)
async def one(request: Request, id_: str) -> Response:
    """One webhook, without its secret."""
    context, caller = await _let_in(request)
    found = await context.ask(context.fairlead.webhooks.show, id_, customer=caller.customer)
    return JSONResponse(found)


@router.patch("/{id_}", responses=_ONE, openapi_extra=schemas.takes(schemas.WebhookChanges))
async def change(request: Request, id_: str) -> Response:
    """Change its address or events, or switch it off and on; what is not sent stays."""
    context, caller = await _let_in(request)
    changes = await schemas.read_body(request, schemas.WebhookChanges)
    found = await context.ask(
        context.fairlead.webhooks.set,
        id_,
        customer=caller.customer,
        url=changes.url,
        kinds=changes.kinds,
        enabled=changes.enabled,
        by=caller.key_id,
    )
    return JSONResponse(found)


@router.delete(
    "/{id_}",
    status_code=204,
    responses=schemas.answers(204, None, "it is forgotten", "unknown-webhook"),
)
async def remove(request: Request, id_: str) -> Response:
    """Forget a webhook and its deliveries."""
    context, caller = await _let_in(request)
    await context.ask(
        context.fairlead.webhooks.delete, id_, customer=caller.customer, by=caller.key_id
    )
    return Response(status_code=204)


@router.post("/{id_}/test", status_code=202, responses=_DELIVERY)
async def test(request: Request, id_: str) -> Response:
    """Send a delivery that tells of nothing; what came of it stands among the deliveries."""
    context, caller = await _let_in(request)
    made = await context.ask(context.fairlead.webhooks.test, id_, customer=caller.customer)
    return JSONResponse(made, 202)


@router.get(
    "/{id_}/deliveries",
    responses=schemas.answers(
        *(200, Deliveries, "deliveries, newest first"),
        *("unknown-webhook", "invalid-cursor"),
    ),
)
async def deliveries(
    request: Request,
    id_: str,
    *,
    cursor: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """What was sent, and what the receiver said. `cursor` is the `next` of the page before."""
    context, caller = await _let_in(request)
    page = await context.ask(_page, context, caller, id_, cursor, limit)
    return JSONResponse(Deliveries(page.items, page.next))


def _page(
    context: ServerContext, caller: Caller, id_: str, cursor: str | None, limit: int
) -> Page[Delivery]:
    fairlead, whose = context.fairlead, caller.customer
    fairlead.webhooks.show(id_, customer=whose)
    if cursor is not None and not _is_cursor(fairlead, id_, cursor):
        raise invalid_cursor()
    return fairlead.webhooks.deliveries(id_, customer=whose, cursor=cursor, limit=limit)


def _is_cursor(fairlead: Fairlead, webhook: str, cursor: str) -> bool:
    """Whether it is a delivery of this webhook that is still known."""
    try:
        return fairlead.webhooks.delivery(cursor).webhook == webhook
    except UnknownDelivery:
        return False


@router.post("/deliveries/{id_}/resend", status_code=202, responses=_DELIVERY)
async def resend(request: Request, id_: str) -> Response:
    """Send a delivery again under its old id."""
    context, caller = await _let_in(request)
    found = await context.ask(context.fairlead.webhooks.retry, id_, customer=caller.customer)
    return JSONResponse(found, 202)

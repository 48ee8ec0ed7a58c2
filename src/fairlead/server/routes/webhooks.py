"""/v1/webhooks: webhooks and their deliveries.

A customer can use its own webhooks, an operator those of all customers.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec.structs import asdict
from starlette.responses import Response

from fairlead.app import Fairlead
from fairlead.errors import Message, UnknownDelivery
from fairlead.model.installation import ListingPage
from fairlead.model.webhooks import (
    DEFAULT_KINDS,
    Deliveries,
    Delivery,
    Webhook,
    Webhooks,
    WebhookWithSecret,
)
from fairlead.server import schemas
from fairlead.server.context import authenticated
from fairlead.server.problems import Problem, invalid_cursor

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])
_WEBHOOK = schemas.answers(200, Webhook, "the webhook", "unknown-webhook")
_DELIVERY = schemas.answers(202, Delivery, "it will be sent", "unknown-webhook")


@router.get(
    "", operation_id="listWebhooks", responses=schemas.answers(200, Webhooks, "the webhooks")
)
async def list_all(request: Request) -> Response:
    """List the webhooks that the key may see, oldest first."""
    context, caller = await authenticated(request)
    return schemas.JSONResponse(
        Webhooks(await context.ask(context.fairlead.webhooks.list, caller.customer))
    )


@router.post(
    "",
    operation_id="createWebhook",
    status_code=201,
    responses=schemas.answers(
        201,
        WebhookWithSecret,
        "the webhook, with its secret this once",
        "unknown-customer",
    ),
    openapi_extra=schemas.takes(schemas.NewWebhook),
)
async def add(request: Request) -> Response:
    """Create a webhook for the key's customer or, for operators, for one customer or all."""
    context, caller = await authenticated(request)
    new = await schemas.read_body(request, schemas.NewWebhook)
    customer = caller.customer or new.customer
    if new.customer not in (None, customer):
        raise Problem(
            "forbidden", Message("a customer's API key can create webhooks for that customer only")
        )
    kinds = DEFAULT_KINDS if new.kinds is None else new.kinds
    webhook, secret = await context.ask(
        context.fairlead.webhooks.add, new.url, kinds, customer=customer, by=caller.key_id
    )
    headers = {"Location": f"/v1/webhooks/{webhook.id}", "Cache-Control": "no-store"}
    return schemas.JSONResponse(WebhookWithSecret(**asdict(webhook), secret=secret), 201, headers)


@router.get("/{webhook_id}", operation_id="getWebhook", responses=_WEBHOOK)
async def show(request: Request, webhook_id: str) -> Response:
    """Show a webhook, without its secret."""
    context, caller = await authenticated(request)
    webhook = await context.ask(
        context.fairlead.webhooks.show, webhook_id, customer=caller.customer
    )
    return schemas.JSONResponse(webhook)


@router.patch(
    "/{webhook_id}",
    operation_id="updateWebhook",
    responses=_WEBHOOK,
    openapi_extra=schemas.takes(schemas.WebhookChanges),
)
async def change(request: Request, webhook_id: str) -> Response:
    """Change a webhook's URL or events, or switch it off and on; what is not sent stays."""
    context, caller = await authenticated(request)
    changes = await schemas.read_body(request, schemas.WebhookChanges)
    webhook = await context.ask(
        context.fairlead.webhooks.set,
        webhook_id,
        customer=caller.customer,
        by=caller.key_id,
        **asdict(changes),
    )
    return schemas.JSONResponse(webhook)


@router.delete(
    "/{webhook_id}",
    operation_id="deleteWebhook",
    status_code=204,
    responses=schemas.answers(204, None, "deleted", "unknown-webhook"),
)
async def remove(request: Request, webhook_id: str) -> Response:
    """Delete a webhook and its deliveries."""
    context, caller = await authenticated(request)
    await context.ask(
        context.fairlead.webhooks.delete, webhook_id, customer=caller.customer, by=caller.key_id
    )
    return Response(status_code=204)


@router.post("/{webhook_id}/test", operation_id="testWebhook", status_code=202, responses=_DELIVERY)
async def test(request: Request, webhook_id: str) -> Response:
    """Send a test delivery; its outcome is listed among the deliveries."""
    context, caller = await authenticated(request)
    delivery = await context.ask(
        context.fairlead.webhooks.test, webhook_id, customer=caller.customer
    )
    return schemas.JSONResponse(delivery, 202)


@router.get(
    "/{webhook_id}/deliveries",
    operation_id="listDeliveries",
    responses=schemas.answers(
        200,
        Deliveries,
        "deliveries, newest first",
        "unknown-webhook",
        "invalid-cursor",
    ),
)
async def deliveries(
    request: Request,
    webhook_id: str,
    *,
    cursor: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List deliveries with the receiver's responses. `cursor` is the `next` of the page before."""
    context, caller = await authenticated(request)
    fairlead, owner = context.fairlead, caller.customer

    def read_page() -> ListingPage[Delivery]:
        fairlead.webhooks.show(webhook_id, customer=owner)
        if cursor is not None and not _is_cursor(fairlead, webhook_id, cursor):
            raise invalid_cursor()
        return fairlead.webhooks.deliveries(webhook_id, customer=owner, cursor=cursor, limit=limit)

    page = await context.ask(read_page)
    return schemas.JSONResponse(Deliveries(page.items, page.next))


def _is_cursor(fairlead: Fairlead, webhook_id: str, cursor: str) -> bool:
    try:
        return fairlead.webhooks.delivery(cursor).webhook == webhook_id
    except UnknownDelivery:
        return False


@router.post(
    "/deliveries/{delivery_id}/resend",
    operation_id="resendDelivery",
    status_code=202,
    responses=_DELIVERY,
)
async def resend(request: Request, delivery_id: str) -> Response:
    """Send a delivery again under its old id."""
    context, caller = await authenticated(request)
    delivery = await context.ask(
        context.fairlead.webhooks.retry, delivery_id, customer=caller.customer
    )
    return schemas.JSONResponse(delivery, 202)

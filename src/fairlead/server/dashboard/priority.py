"""How priorities are determined, by the settings in force, and where a customer stands."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.states import State
from fairlead.policy.classic import ClassicPolicy
from fairlead.server.dashboard.page import Page, PageRoute, page_of, show

PENDING_SHOWN = 20
"""Pending documents of which the page says when they should start."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/priority")
async def priority(
    request: Request, customer: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    page = await page_of(request)
    content = await page.context.ask(_content, page, page.caller.customer or customer)
    return show(request, "priority.html", page=page, **content)


def _content(page: Page, customer: str) -> dict[str, Any]:
    """The rule in force; for a customer its own one, with where it stands."""
    fairlead = page.context.fairlead
    standing = fairlead.customers.standing(customer) if customer else None
    rules = fairlead.settings.rules()
    if standing is None:
        is_fair = fairlead.queue.policy() == "fair"
        rule = rules.fair() if is_fair else rules.classic()
    else:
        rule = fairlead.customers.rule(customer)
    is_classic = isinstance(rule, ClassicPolicy)
    return {
        "standing": standing,
        "pending": [] if standing is None else _pending(page, customer),
        "is_classic": is_classic,
        "is_window": isinstance(rule, ClassicPolicy) and rule.reset == "window",
        "interval": rule.reset_interval,
        "thresholds": list(enumerate(rule.thresholds, start=2)),
        "last_level": len(rule.thresholds) + 1,
        "has_lane": rules.lane is not None,
    }


def _pending(page: Page, customer: str) -> list[tuple[Document, str | None]]:
    """The customer's newest pending documents, with the forecast of their start in words."""
    list_documents, documents = page.context.fairlead.documents, list[Document]()
    for state in (State.PROCESSING, State.WAITING):
        documents += list_documents(customer=customer, state=state, limit=PENDING_SHOWN).items
    return [(document, _forecast(page, document)) for document in documents[:PENDING_SHOWN]]


def _forecast(page: Page, document: Document) -> str | None:
    fairlead = page.context.fairlead
    if document.state is not State.WAITING:
        return None
    try:
        forecast = fairlead.why(document.id).forecast
    except UnknownDocument:  # it was deleted meanwhile
        return None
    return None if forecast is None else page.translator.forecast(forecast, fairlead.store.now())

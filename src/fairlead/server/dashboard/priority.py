"""/priority: the rules for priorities under the current settings, and a customer's standing."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.states import State
from fairlead.policy.classic import ClassicPolicy
from fairlead.policy.explain import with_words
from fairlead.server.dashboard.page import PageRequest, PageRoute, caller_page

PENDING_SHOWN = 20
"""Pending documents on the page, with reasons and forecast."""
ENDED_SHOWN = 10

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class PendingRow(NamedTuple):
    """A pending document with its forecast and reasons as sentences."""

    document: Document
    forecast: str | None = None
    reasons: tuple[str, ...] = ()


@router.get("/priority")
async def priority(
    request: Request, customer: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    page = await caller_page(request)
    content = await page.context.ask(priority_content, page, page.caller.customer or customer)
    return page.show("priority.html", layout="base.html", **content)


def priority_content(page: PageRequest, customer: str) -> dict[str, Any]:
    """The current rule; for a customer its own rule, its standing and its documents."""
    fairlead = page.fairlead
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
        "ended": [] if standing is None else _ended(page, customer),
        "is_classic": is_classic,
        "is_window": isinstance(rule, ClassicPolicy) and rule.reset == "window",
        "interval": rule.reset_interval,
        "thresholds": list(enumerate(rule.thresholds, start=2)),
        "last_level": len(rule.thresholds) + 1,
        "lane_after": None if rules.lane is None else rules.lane.after,
    }


def _newest(
    page: PageRequest, customer: str, states: tuple[State, ...], limit: int
) -> list[Document]:
    return [
        document
        for state in states
        for document in page.fairlead.documents(customer=customer, state=state, limit=limit).items
    ]


def _pending(page: PageRequest, customer: str) -> list[PendingRow]:
    """The customer's newest pending documents, those that are processing first."""
    documents = _newest(page, customer, (State.PROCESSING, State.WAITING), PENDING_SHOWN)
    return [_pending_row(page, document) for document in documents[:PENDING_SHOWN]]


def _pending_row(page: PageRequest, document: Document) -> PendingRow:
    fairlead, translator = page.fairlead, page.translator
    if document.state is not State.WAITING:
        return PendingRow(document)
    try:
        explanation = fairlead.why(document.id)
    except UnknownDocument:  # deleted meanwhile
        return PendingRow(document)
    why = with_words(explanation, translator.reason, with_others=page.caller.is_operator)
    now, forecast = fairlead.store.now(), why.forecast
    start = None if forecast is None else translator.forecast(forecast, now)
    return PendingRow(document, start, tuple(reason.words for reason in why.reasons))


def _ended(page: PageRequest, customer: str) -> list[Document]:
    """The documents that ended last, done or failed."""
    documents = _newest(page, customer, (State.DONE, State.FAILED), ENDED_SHOWN)
    newest_first = sorted(documents, key=lambda document: document.finished_at or 0.0, reverse=True)
    return newest_first[:ENDED_SHOWN]

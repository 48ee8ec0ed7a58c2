"""Documents: the list with its filters, the page of one, and cancelling and retrying."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import InvalidTransition, Message, NotReady, UnknownCustomer, UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.states import Action, State, allows
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.last_hour import LEVELS
from fairlead.server.dashboard.page import Page, PageRoute, form_of, go, page_of, show
from fairlead.server.dashboard.rows import document_row
from fairlead.server.dashboard.timeline import attempts, life
from fairlead.server.problems import Problem, unknown_document

PAGE = 100
PREVIEW = 5000
MOST_AT_ONCE = 10_000
"""Documents that one confirmation may decide about."""
HANDS = 16
"""Decisions that are made at once, so that they share their waits for the disk."""
PORTION = 1000
LAST = 2**31
"""The last priority that may be asked for, as over HTTP."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_ACTIONS = {"cancel": Action.CANCEL, "retry": Action.RETRIED}


@dataclass(frozen=True)
class Filter:
    """What a list shows. Empty: everything."""

    customer: str = ""
    state: str = ""
    priority: int | None = None
    text: str = ""

    def asked(self) -> dict[str, Any]:
        """As `Fairlead.documents` takes it."""
        return {
            "customer": self.customer or None,
            "state": State(self.state) if self.state else None,
            "priority": self.priority,
            "name": self.text or None,
        }


def _filter(page: Page, customer: str, state: str, priority: str, text: str) -> Filter:
    """The filter as given; a customer's is always on its own documents."""
    if state and state not in set(State):
        raise Problem("invalid-request", f"state must be one of {', '.join(State)}")
    if priority and not (priority.isascii() and priority.isdigit() and 0 < int(priority) <= LAST):
        raise Problem("invalid-request", "priority must be a whole number from 1")
    own = page.caller.customer
    return Filter(own or customer, state, int(priority) if priority else None, text)


Short = Annotated[str, Query(max_length=1000)]
Ids = Annotated[list[str], Query(max_length=1000)]


@router.get("/documents")
async def every(
    request: Request,
    *,
    customer: Short = "",
    state: Short = "",
    priority: Short = "",
    text: Short = "",
    before: Short = "",
    done: Short = "",
    number: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
    left: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
) -> Response:
    """Documents, newest first."""
    page = await page_of(request)
    chosen = _filter(page, customer, state, priority, text)
    found = await page.context.ask(_page, page, chosen, before)
    notice = ""
    if done in texts.DONE_WITH_DOCUMENTS:
        notice = page.counted(texts.DONE_WITH_DOCUMENTS[done], number)
        notice += " " + page.counted(texts.LEFT_OUT, left) if left else ""
    return show(
        request,
        "documents.html",
        page=page,
        rows=[document_row(each) for each in found[:PAGE]],
        following=found[PAGE - 1].id if len(found) > PAGE else None,
        before=before,
        chosen=asdict(chosen),
        levels=await page.context.ask(_levels, page, chosen),
        notice=notice,
    )


def _levels(page: Page, chosen: Filter) -> list[int]:
    """Priorities to choose from: the usual ones, those in use beyond them, and what was chosen."""
    fairlead, own = page.context.fairlead, page.caller.customer
    if own is None:
        used = {each.priority for each in fairlead.store.tallies()}
    else:  # what others have is not for a customer's eyes
        used = set(
            range(1, len(fairlead.customers.rule(fairlead.store.customer(own)).thresholds) + 2)
        )
    picked = {chosen.priority} if chosen.priority else set()
    return sorted(used | picked | set(range(1, LEVELS + 1)))


def _page(page: Page, chosen: Filter, before: str) -> list[Document]:
    if before and not page.caller.may_see(page.context.fairlead.owner(before)):
        raise unknown_document(before)
    try:
        return page.context.fairlead.documents(
            **chosen.asked(), cursor=before or None, limit=PAGE + 1
        ).items
    except UnknownCustomer:
        return []


def _visible(page: Page, id_: str) -> Document:
    """The document, if it is the caller's; another one's is as one that never was."""
    document = page.context.fairlead.document(id_)
    if not page.caller.may_see(document.customer):
        raise unknown_document(id_)
    return document


@router.get("/document/{id_}")
async def one(request: Request, id_: str) -> Response:
    """One document: its life, why it has its priority, its text."""
    page = await page_of(request)
    found = await page.context.ask(_look, page, id_)
    preview = await _preview(page, id_)
    return show(request, "document.html", page=page, preview=preview, **found)


def _look(page: Page, id_: str) -> dict[str, Any]:
    document = _visible(page, id_)
    fairlead, said, now = page.context.fairlead, page.said, page.context.fairlead.store.now()
    why = fairlead.why(id_)
    events = fairlead.store.events_of(id_)
    ahead, is_operator = why.ahead, page.caller.is_operator
    return {
        "document": document,
        "has_parent": bool(fairlead.store.known_documents([document.parent or ""])),
        "row": document_row(document),
        "reasons": [said.reason(each) for each in why.reasons],
        "forecast": why.forecast and said.forecast(why.forecast, now),
        "position": why.position,
        "ahead": said.most_ahead(ahead.most) if ahead and ahead.most and is_operator else None,
        "life": life(events, said, is_operator=is_operator),
        "attempts": attempts(events),
        "preview_characters": PREVIEW,
        "parts_of": fairlead.documents(parent=id_, limit=PAGE).items,
        "may_cancel": allows(document.state, Action.CANCEL),
        "may_retry": allows(document.state, Action.RETRIED),
    }


async def _preview(page: Page, id_: str) -> str | None:
    """The beginning of its text. A short one waits for no files."""
    context, fairlead = page.context, page.context.fairlead
    try:
        stored = await context.ask(fairlead.store.stored_document, id_)
        run = context.ask if stored.text_key is None else context.fetch
        text: str = await run(fairlead.text, id_)
    except NotReady:
        return None
    return text[: PREVIEW + 1]


# --- cancelling and retrying ---


@router.get("/documents/{decision}")
async def ask(
    request: Request,
    decision: str,
    *,
    id_: Annotated[list[str], Query(alias="id", max_length=PORTION)] = [],  # noqa: B006
    every_one: Annotated[bool, Query(alias="all")] = False,
    single: bool = False,
    customer: Short = "",
    state: Short = "",
    priority: Short = "",
    text: Short = "",
) -> Response:
    """Ask once more, with the number of documents: those chosen, or all that match."""
    page = await page_of(request)
    action = _action(decision)
    chosen = _filter(page, customer, state, priority, text)
    ids = await page.context.ask(_meant, page, action, chosen, None if every_one else id_)
    fields = [("id", each) for each in ids] + ([("single", "1")] if single else [])
    values = {name: value for name, value in asdict(chosen).items() if value}
    back: tuple[str, dict[str, Any]] = ("/documents", values)
    if single and id_:
        back = (f"/document/{id_[0]}", {})
    if every_one:
        fields = [*values.items(), ("all", "1"), ("until", repr(page.context.fairlead.store.now()))]
    return show(
        request,
        "confirm_documents.html",
        page=page,
        question=page.counted(texts.WITH_DOCUMENTS[decision], len(ids)),
        number=len(ids),
        decision=decision,
        most=MOST_AT_ONCE,
        fields=fields,
        back=back,
    )


def _action(decision: str) -> Action:
    if decision not in _ACTIONS:
        raise Problem("not-found", Message("no such URL; see /docs"))
    return _ACTIONS[decision]


def _meant(
    page: Page, action: Action, chosen: Filter, ids: list[str] | None, until: float = math.inf
) -> list[str]:
    """Ids of the documents that a decision is about: those whose state allows it."""
    if ids is not None:
        found = (_visible(page, each) for each in dict.fromkeys(ids))
        return [each.id for each in found if allows(each.state, action)]
    return [each.id for each in _matching(page, action, chosen, until)]


def _matching(page: Page, action: Action, chosen: Filter, until: float) -> Iterator[Document]:
    """All that match and came until then; MOST_AT_ONCE of them at most."""
    states = [State(chosen.state)] if chosen.state else list(State)
    left = MOST_AT_ONCE
    for state in states:
        if not allows(state, action):
            continue
        filters = chosen.asked() | {"state": state}
        documents = page.context.fairlead.documents(**filters, limit=PORTION)
        matching = (each for each in documents if each.submitted_at <= until)
        for document in islice(matching, left):
            left -= 1
            yield document


@router.post("/documents/{decision}")
async def decide(request: Request, decision: str) -> Response:
    """Cancel or retry documents."""
    page = await page_of(request)
    action = _action(decision)
    form = await form_of(request)
    given = {name: values[0] for name, values in form.items()}
    chosen = _filter(
        page, *(given.get(name, "") for name in ("customer", "state", "priority", "text"))
    )
    ids = None if "all" in form else form.get("id", [])
    until = _until(given.get("until", ""))
    done, left = await page.context.ask(_decide, page, action, chosen, ids, until)
    if "single" in form and ids:
        return go(f"/document/{ids[0]}")
    values = {name: value for name, value in asdict(chosen).items() if value}
    return go("/documents", done=decision, number=done, left=left, **values)


def _until(text: str) -> float:
    try:
        return float(text or "inf")
    except ValueError:
        raise Problem("invalid-request", "until must be a time in seconds since 1970") from None


def _decide(
    page: Page, action: Action, chosen: Filter, ids: list[str] | None, until: float
) -> tuple[int, int]:
    """How many were changed, and how many were not because their state had changed."""
    meant = _meant(page, action, chosen, ids, until)
    fairlead, by = page.context.fairlead, page.caller.key_id
    act = fairlead.cancel if action is Action.CANCEL else fairlead.retry

    def one(id_: str) -> bool:
        try:
            act(id_, by=by)
        except (InvalidTransition, UnknownDocument):
            return False
        return True

    with ThreadPoolExecutor(HANDS, thread_name_prefix="decide") as hands:
        done = sum(hands.map(one, meant))
    return done, len(meant if ids is None else ids) - done

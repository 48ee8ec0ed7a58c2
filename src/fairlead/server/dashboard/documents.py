"""Documents: the list with its filters, the page of one, and cancelling and retrying."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import InvalidTransition, NotReady, UnknownCustomer, UnknownDocument
from fairlead.model.documents import Document, ResultFile
from fairlead.model.states import Action, State, allows
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.last_hour import LEVELS
from fairlead.server.dashboard.page import (
    Page,
    PageRoute,
    check_may_change,
    form_of,
    go,
    page_of,
    show,
)
from fairlead.server.dashboard.page_view import is_picture, page_view
from fairlead.server.dashboard.rows import document_row
from fairlead.server.dashboard.timeline import attempts, timeline
from fairlead.server.problems import Problem, not_found, unknown_document

PAGE = 100
PREVIEW = 5000
MOST_AT_ONCE = 10_000
"""Documents that one confirmation may decide about."""
THREADS = 16
"""Documents that are changed at once, so that they share commits."""
PORTION = 1000
LAST_PRIORITY = 2**31
LONGEST_FILTER = 1000

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_ACTIONS = {"cancel": Action.CANCEL, "retry": Action.RETRY}


@dataclass(frozen=True)
class Filter:
    """What a list shows. Empty: everything."""

    customer: str = ""
    state: str = ""
    priority: int | None = None
    text: str = ""
    pipeline: str = ""
    reference: str = ""
    batch: str = ""
    metadata: str = ""
    """A top-level key and its value, such as order=471."""

    def query(self) -> dict[str, Any]:
        key, _, value = self.metadata.partition("=")
        return {
            "pipeline": self.pipeline or None,
            "reference": self.reference or None,
            "batch": self.batch or None,
            "metadata": {key: value} if self.metadata else None,
            "customer": self.customer or None,
            "state": State(self.state) if self.state else None,
            "priority": self.priority,
            "name": self.text or None,
        }


def _filter(page: Page, sent: Mapping[str, str]) -> Filter:
    """The filter as sent; a customer's is always on its own documents."""
    if any(len(sent.get(name, "")) > LONGEST_FILTER for name in FILTERS):
        raise Problem("invalid-request", "a filter is too long")
    state, priority, metadata = (sent.get(name, "") for name in ("state", "priority", "metadata"))
    if metadata and "=" not in metadata:
        raise Problem("invalid-request", "metadata must be a key and a value, such as order=471")
    if state and state not in set(State):
        raise Problem("invalid-request", f"state must be one of {', '.join(State)}")
    if not priority:
        level = None
    elif priority.isascii() and priority.isdigit() and 0 < int(priority) <= LAST_PRIORITY:
        level = int(priority)
    else:
        raise Problem("invalid-request", "priority must be a whole number from 1")
    customer, text = (sent.get(name, "") for name in ("customer", "text"))
    stripped = ("pipeline", "reference", "batch")
    pipeline, reference, batch = (sent.get(name, "").strip() for name in stripped)
    owner = page.caller.customer or customer
    return Filter(owner, state, level, text, pipeline, reference, batch, metadata)


FILTERS = tuple(field.name for field in fields(Filter))
Short = Annotated[str, Query(max_length=1000)]


@router.get("/documents")
async def every(
    request: Request,
    *,
    before: Short = "",
    done: Short = "",
    number: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
    left: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
) -> Response:
    page = await page_of(request)
    chosen = _filter(page, request.query_params)
    documents = await page.context.ask(_page, page, chosen, before)
    notice = ""
    if done in texts.DONE_WITH_DOCUMENTS:
        notice = page.counted(texts.DONE_WITH_DOCUMENTS[done], number)
        notice += " " + page.counted(texts.LEFT_OUT, left) if left else ""
    return show(
        request,
        "documents.html",
        page=page,
        rows=await page.context.ask(_rows, page, documents[:PAGE]),
        following=documents[PAGE - 1].id if len(documents) > PAGE else None,
        before=before,
        chosen=asdict(chosen),
        levels=await page.context.ask(_levels, page, chosen),
        notice=notice,
    )


def _levels(page: Page, chosen: Filter) -> list[int]:
    """Priorities to choose from: the usual ones, those in use beyond them, and what was chosen."""
    fairlead, own = page.context.fairlead, page.caller.customer
    if own is None:
        used = {tally.priority for tally in fairlead.store.tallies()}
    else:  # a customer must not see what others have
        used = set(
            range(1, len(fairlead.customers.rule(fairlead.store.customer(own)).thresholds) + 2)
        )
    picked = {chosen.priority} if chosen.priority else set()
    return sorted(used | picked | set(range(1, LEVELS + 1)))


def _page(page: Page, chosen: Filter, before: str) -> list[Document]:
    if before and not page.caller.may_see(page.context.fairlead.owner(before)):
        raise unknown_document(before)
    try:
        documents = page.context.fairlead.documents(
            **chosen.query(), cursor=before or None, limit=PAGE + 1
        )
        return documents.items
    except UnknownCustomer:
        return []


def _rows(page: Page, documents: Sequence[Document]) -> list[dict[str, Any]]:
    names = {document.customer for document in documents if document.state is State.WAITING}
    paused = {name for name in names if page.context.fairlead.store.customer(name).paused}
    return [document_row(each, is_paused=each.customer in paused) for each in documents]


def _visible(page: Page, id_: str) -> Document:
    document = page.context.fairlead.document(id_)
    if not page.caller.may_see(document.customer):
        raise unknown_document(id_)
    return document


@router.get("/document/{document_id}")
async def one(
    request: Request, document_id: str, number: Annotated[int, Query(alias="page")] = 1
) -> Response:
    """The page of a document; `page` is the one that is shown beside its text."""
    page = await page_of(request)
    content = await page.context.ask(_content, page, document_id)
    text = await _text(page, document_id)
    data, files = await _result(page, document_id)
    return show(
        *(request, "document.html"),
        page=page,
        view=page_view(text, files, number),
        preview=text if text is None else text[: PREVIEW + 1],
        data=data,
        files=[file for file in files if not is_picture(file)],
        pictures=[file for file in files if is_picture(file)],
        **content,
    )


def _content(page: Page, id_: str) -> dict[str, Any]:
    document = _visible(page, id_)
    fairlead, translator = page.context.fairlead, page.translator
    why = fairlead.why(id_)
    events = fairlead.store.events_of(id_)
    ahead, is_operator = why.ahead, page.caller.is_operator
    return {
        "document": document,
        "has_parent": bool(fairlead.store.known_documents([document.parent or ""])),
        "row": document_row(document),
        "reasons": [translator.reason(reason) for reason in why.reasons],
        "forecast": why.forecast and translator.forecast(why.forecast, fairlead.store.now()),
        "position": why.position,
        "is_about": ahead is not None and ahead.is_estimate,
        "ahead": translator.most_ahead(ahead.most)
        if ahead and ahead.most and is_operator
        else None,
        "life": timeline(events, translator, is_operator=is_operator),
        "attempts": attempts(events),
        "preview_characters": PREVIEW,
        "cause": fairlead.cause(id_) if is_operator else None,
        "parts_of": fairlead.documents(parent=id_, limit=PAGE).items,
        "may_cancel": allows(document.state, Action.CANCEL),
        "may_retry": allows(document.state, Action.RETRY),
    }


async def _text(page: Page, id_: str) -> str | None:
    context, fairlead = page.context, page.context.fairlead
    try:
        stored = await context.ask(fairlead.store.stored_document, id_)
        run = context.ask if stored.text_key is None else context.fetch
        text: str = await run(fairlead.text, id_)
    except NotReady:
        return None
    return text


async def _result(page: Page, id_: str) -> tuple[str, tuple[ResultFile, ...]]:
    """The beginning of the data as JSON, empty where there is none, and the files."""
    context = page.context
    try:
        result = await context.ask(context.fairlead.result, id_)
    except NotReady:
        return "", ()
    data = await (context.fetch if result.is_remote else context.ask)(lambda: result.data)
    text = json.dumps(data, indent=2, ensure_ascii=False) if data else ""
    return text[: PREVIEW + 1], result.files


# --- cancelling and retrying ---


@router.get("/documents/{decision}")
async def ask(
    request: Request,
    decision: str,
    *,
    id_: Annotated[list[str], Query(alias="id", max_length=PORTION)] = [],  # noqa: B006
    every_one: Annotated[bool, Query(alias="all")] = False,
    single: bool = False,
) -> Response:
    page = await page_of(request)
    check_may_change(page)
    action = _action(decision)
    chosen = _filter(page, request.query_params)
    ids = await page.context.ask(_ids, page, action, chosen, None if every_one else id_)
    values = {name: value for name, value in asdict(chosen).items() if value}
    fields = [("id", one_id) for one_id in ids] + [*values.items()]
    fields += [("single", "1")] if single else []
    back: tuple[str, dict[str, Any]] = ("/documents", values)
    if single and id_:
        back = (f"/document/{id_[0]}", {})
    if every_one:
        fields = [*values.items(), ("all", "1"), ("until", repr(page.context.fairlead.store.now()))]
    return show(
        request,
        "confirm_documents.html",
        page=page,
        question=page.counted(texts.WITH_DOCUMENTS[decision], len(ids))
        if ids
        else page.translator.text(texts.NOTHING_TO[decision]),
        number=len(ids),
        decision=decision,
        most=MOST_AT_ONCE,
        fields=fields,
        back=back,
    )


def _action(decision: str) -> Action:
    if decision not in _ACTIONS:
        raise not_found()
    return _ACTIONS[decision]


def _ids(
    page: Page, action: Action, chosen: Filter, ids: list[str] | None, until: float = math.inf
) -> list[str]:
    """Of these ids, or of all documents that match, those whose state allows the action."""
    if ids is None:
        return [document.id for document in _matching(page, action, chosen, until)]
    documents = (_visible(page, id_) for id_ in dict.fromkeys(ids))
    return [document.id for document in documents if allows(document.state, action)]


def _matching(page: Page, action: Action, chosen: Filter, until: float) -> Iterator[Document]:
    """The documents that match and were submitted until then; MOST_AT_ONCE at most.

    Of all states, those that are done are left alone: who retries all means what went wrong.
    """
    left = MOST_AT_ONCE
    for state in [State(chosen.state)] if chosen.state else State:
        is_asked_for = state.value == chosen.state or state is not State.DONE
        if not allows(state, action) or not is_asked_for:
            continue
        query = chosen.query() | {"state": state}
        documents = page.context.fairlead.documents(**query, limit=PORTION)
        for document in islice((each for each in documents if each.submitted_at <= until), left):
            left -= 1
            yield document


@router.post("/documents/{decision}")
async def decide(request: Request, decision: str) -> Response:
    page = await page_of(request)
    action = _action(decision)
    form = await form_of(request)
    sent = {name: values[0] for name, values in form.items()}
    chosen = _filter(page, sent)
    ids = None if "all" in form else form.get("id", [])
    try:
        until = float(sent.get("until") or "inf")
    except ValueError:
        raise Problem("invalid-request", "until is a time in seconds since 1970") from None
    done, left = await page.context.ask(_decide, page, action, chosen, ids, until)
    if "single" in form and ids:
        return go(f"/document/{ids[0]}")
    values = {name: value for name, value in asdict(chosen).items() if value}
    return go("/documents", done=decision, number=done, left=left, **values)


def _decide(
    page: Page, action: Action, chosen: Filter, ids: list[str] | None, until: float
) -> tuple[int, int]:
    """How many were changed, and how many were not because their state had changed."""
    fairlead, by = page.context.fairlead, page.caller.key_id
    allowed = _ids(page, action, chosen, ids, until)
    act = fairlead.cancel if action is Action.CANCEL else fairlead.retry

    def decide_one(id_: str) -> bool:
        try:
            act(id_, by=by)
        except (InvalidTransition, UnknownDocument):
            return False
        return True

    with ThreadPoolExecutor(THREADS, thread_name_prefix="decide") as pool:
        done = sum(pool.map(decide_one, allowed))
    return done, len(allowed if ids is None else ids) - done

"""Documents: the list with its filters, the page of one document, cancelling and retrying."""

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
from fairlead.policy.explain import with_words
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.last_hour import LEVELS
from fairlead.server.dashboard.page import (
    PageRequest,
    PageRoute,
    caller_page,
    check_may_change,
    form_lists,
    form_of,
    redirect,
)
from fairlead.server.dashboard.page_preview import is_picture, page_preview
from fairlead.server.dashboard.rows import document_row
from fairlead.server.dashboard.timeline import attempts, timeline
from fairlead.server.problems import Problem, not_found, unknown_document

ROWS = 100
PREVIEW = 5000
MOST_AT_ONCE = 10_000
"""The most documents that one confirmation cancels or retries."""
THREADS = 16
"""Documents that are changed at the same time, so that they share commits."""
PORTION = 1000
LAST_PRIORITY = 2**31
LONGEST_FILTER = 1000

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_ACTIONS = {"cancel": Action.CANCEL, "retry": Action.RETRY}


@dataclass(frozen=True)
class Filter:
    """The filter of a list. Empty fields do not restrict it."""

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
        """The filter as arguments of `Fairlead.documents`."""
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


def _filter(page: PageRequest, sent: Mapping[str, str]) -> Filter:
    """The filter of a query or form. A customer's filter is always on its own documents."""
    values = {name: sent.get(name, "") for name in FILTERS}
    if any(len(value) > LONGEST_FILTER for value in values.values()):
        raise Problem("invalid-request", f"a filter may have at most {LONGEST_FILTER} characters")
    if values["metadata"] and "=" not in values["metadata"]:
        raise Problem("invalid-request", "metadata must be a key and a value, such as order=471")
    if values["state"] and values["state"] not in set(State):
        raise Problem("invalid-request", f"state must be one of {', '.join(State)}")
    return Filter(
        customer=page.caller.customer or values["customer"],
        state=values["state"],
        priority=_priority(values["priority"]),
        text=values["text"],
        pipeline=values["pipeline"].strip(),
        reference=values["reference"].strip(),
        batch=values["batch"].strip(),
        metadata=values["metadata"],
    )


def _priority(text: str) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and 0 < int(text) <= LAST_PRIORITY:
        return int(text)
    raise Problem("invalid-request", "priority must be a whole number from 1")


FILTERS = tuple(field.name for field in fields(Filter))
Short = Annotated[str, Query(max_length=1000)]


@router.get("/documents")
async def list_page(
    request: Request,
    *,
    before: Short = "",
    done: Short = "",
    number: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
    left: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
) -> Response:
    page = await caller_page(request)
    chosen = _filter(page, request.query_params)
    documents = await page.context.ask(_page, page, chosen, before)
    notice = ""
    if done in texts.DONE_WITH_DOCUMENTS:
        notice = page.counted(texts.DONE_WITH_DOCUMENTS[done], number)
        notice += " " + page.counted(texts.LEFT_OUT, left) if left else ""
    return page.show(
        "documents.html",
        rows=await page.context.ask(_rows, page, documents[:ROWS]),
        following=documents[ROWS - 1].id if len(documents) > ROWS else None,
        before=before,
        chosen=asdict(chosen),
        levels=await page.context.ask(_levels, page, chosen),
        notice=notice,
    )


def _levels(page: PageRequest, chosen: Filter) -> list[int]:
    """The priorities of the filter: the default ones, others in use, and the chosen one."""
    fairlead, own = page.fairlead, page.caller.customer
    levels = set(range(1, LEVELS + 1))
    if own is None:
        levels |= {tally.priority for tally in fairlead.store.tallies()}
    else:  # by the customer's own rule: it must not learn the priorities of others
        rule = fairlead.customers.rule(fairlead.store.customer(own))
        levels |= set(range(1, len(rule.thresholds) + 2))
    return sorted(levels | ({chosen.priority} if chosen.priority else set()))


def _page(page: PageRequest, chosen: Filter, before: str) -> list[Document]:
    if before and not page.caller.may_see(page.fairlead.owner(before)):
        raise unknown_document(before)
    try:
        documents = page.fairlead.documents(**chosen.query(), cursor=before or None, limit=ROWS + 1)
        return documents.items
    except UnknownCustomer:
        return []


def _rows(page: PageRequest, documents: Sequence[Document]) -> list[dict[str, Any]]:
    names = {document.customer for document in documents if document.state is State.WAITING}
    paused = {name for name in names if page.fairlead.store.customer(name).paused}
    return [document_row(document, is_paused=document.customer in paused) for document in documents]


def visible(page: PageRequest, id_: str) -> Document:
    """The document; raises if it is unknown or the caller may not see it."""
    document = page.fairlead.document(id_)
    if not page.caller.may_see(document.customer):
        raise unknown_document(id_)
    return document


@router.get("/document/{document_id}")
async def detail_page(
    request: Request, document_id: str, number: Annotated[int, Query(alias="page")] = 1
) -> Response:
    """The page of a document. `page` is the number of the page picture beside its text."""
    page = await caller_page(request)
    content = await page.context.ask(_content, page, document_id)
    text = await _text(page, document_id)
    data, files = await _result(page, document_id)
    return page.show(
        "document.html",
        page_preview=page_preview(text, files, number),
        preview=text if text is None else text[: PREVIEW + 1],
        data=data,
        files=[file for file in files if not is_picture(file)],
        pictures=[file for file in files if is_picture(file)],
        **content,
    )


def _content(page: PageRequest, id_: str) -> dict[str, Any]:
    document = visible(page, id_)
    fairlead, translator = page.fairlead, page.translator
    is_operator = page.caller.is_operator
    why = with_words(fairlead.why(id_), translator.reason, with_others=is_operator)
    events = fairlead.store.events_of(id_)
    ahead = why.ahead
    return {
        "document": document,
        "has_parent": bool(fairlead.store.known_documents([document.parent or ""])),
        "row": document_row(document),
        "reasons": [reason.words for reason in why.reasons],
        "forecast": why.forecast and translator.forecast(why.forecast, fairlead.store.now()),
        "position": why.position,
        "is_estimate": ahead is not None and ahead.is_estimate,
        "ahead": translator.most_ahead(ahead.most) if ahead and ahead.most else None,
        "history": timeline(events, translator, is_operator=is_operator),
        "attempts": attempts(events),
        "preview_characters": PREVIEW,
        "cause": fairlead.cause(id_) if is_operator else None,
        "attachments": fairlead.documents(parent=id_, limit=ROWS).items,
        "may_cancel": allows(document.state, Action.CANCEL),
        "may_retry": allows(document.state, Action.RETRY),
    }


async def _text(page: PageRequest, id_: str) -> str | None:
    context, fairlead = page.context, page.fairlead
    try:
        stored = await context.ask(fairlead.store.stored_document, id_)
        run = context.ask if stored.text_key is None else context.fetch
        text: str = await run(fairlead.text, id_)
    except NotReady:
        return None
    return text


async def _result(page: PageRequest, id_: str) -> tuple[str, tuple[ResultFile, ...]]:
    """The beginning of the data as JSON (empty: there is no data), and the files."""
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
async def confirm_page(
    request: Request,
    decision: str,
    *,
    id_: Annotated[list[str], Query(alias="id", max_length=PORTION)] = [],  # noqa: B006
    every_one: Annotated[bool, Query(alias="all")] = False,
    single: bool = False,
) -> Response:
    page = await caller_page(request)
    check_may_change(page)
    action = _action(decision)
    chosen = _filter(page, request.query_params)
    ids = await page.context.ask(_ids, page, action, chosen, None if every_one else id_)
    values = {name: value for name, value in asdict(chosen).items() if value}
    fields = [*values.items()]
    if every_one:
        fields += [("all", "1"), ("until", repr(page.fairlead.store.now()))]
    else:
        fields += [("id", document_id) for document_id in ids]
        fields += [("single", "1")] if single else []
    back: tuple[str, dict[str, Any]] = ("/documents", values)
    if single and id_:
        back = (f"/document/{id_[0]}", {})
    question = page.translator.text(texts.NOTHING_TO[decision])
    if ids:
        question = page.counted(texts.WITH_DOCUMENTS[decision], len(ids))
    return page.show(
        "confirm_documents.html",
        question=question,
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
    page: PageRequest,
    action: Action,
    chosen: Filter,
    ids: list[str] | None,
    until: float = math.inf,
) -> list[str]:
    """The ids of documents whose state allows the action: of `ids`, or of all that match."""
    if ids is None:
        return [document.id for document in _matching(page, action, chosen, until)]
    documents = (visible(page, id_) for id_ in dict.fromkeys(ids))
    return [document.id for document in documents if allows(document.state, action)]


def _matching(
    page: PageRequest, action: Action, chosen: Filter, until: float
) -> Iterator[Document]:
    """At most MOST_AT_ONCE documents that match and were submitted until then.

    Without a state in the filter, documents that are done do not match: to retry all is meant for
    those that failed or were cancelled.
    """
    left = MOST_AT_ONCE
    for state in [State(chosen.state)] if chosen.state else State:
        is_chosen = state.value == chosen.state or state is not State.DONE
        if not allows(state, action) or not is_chosen:
            continue
        query = chosen.query() | {"state": state}
        documents = page.fairlead.documents(**query, limit=PORTION)
        older = (document for document in documents if document.submitted_at <= until)
        for document in islice(older, left):
            left -= 1
            yield document


@router.post("/documents/{decision}")
async def decide(request: Request, decision: str) -> Response:
    page = await caller_page(request)
    action = _action(decision)
    form = await form_of(request)
    chosen = _filter(page, form)
    ids = None if "all" in form else (await form_lists(request)).get("id", [])
    try:
        until = float(form.get("until") or "inf")
    except ValueError:
        raise Problem("invalid-request", "until must be a time in seconds since 1970") from None
    done, left = await page.context.ask(_decide, page, action, chosen, ids, until)
    if "single" in form and ids:
        return redirect(f"/document/{ids[0]}")
    values = {name: value for name, value in asdict(chosen).items() if value}
    return redirect("/documents", done=decision, number=done, left=left, **values)


def _decide(
    page: PageRequest, action: Action, chosen: Filter, ids: list[str] | None, until: float
) -> tuple[int, int]:
    """How many documents changed, and how many did not because their state was another by then."""
    fairlead, by = page.fairlead, page.caller.key_id
    allowed = _ids(page, action, chosen, ids, until)
    cancel_or_retry = fairlead.cancel if action is Action.CANCEL else fairlead.retry

    def decide_one(id_: str) -> bool:
        try:
            cancel_or_retry(id_, by=by)
        except (InvalidTransition, UnknownDocument):
            return False
        return True

    with ThreadPoolExecutor(THREADS, thread_name_prefix="decide") as pool:
        done = sum(pool.map(decide_one, allowed))
    return done, len(allowed if ids is None else ids) - done

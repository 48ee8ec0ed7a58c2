"""Documents: the list with its filters, and the page of one document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fairlead.errors import NotReady, UnknownCustomer, UnknownDocument
from fairlead.model.documents import Document, ResultFile
from fairlead.model.states import Action, State, allows
from fairlead.policy.explain import with_words
from fairlead.policy.failures import Remedy, remedy
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.facts import shown_facts, warnings
from fairlead.server.dashboard.last_hour import LEVELS
from fairlead.server.dashboard.page import (
    PageRequest,
    PageRoute,
    caller_page,
)
from fairlead.server.dashboard.page_preview import is_picture, page_preview
from fairlead.server.dashboard.rows import document_row, document_rows
from fairlead.server.dashboard.timeline import attempts, timeline
from fairlead.server.problems import Problem, unknown_document

ROWS = 100
PREVIEW = 5000
MOST_AT_ONCE = 10_000
"""The most documents that one decision changes."""
LAST_PRIORITY = 2**31
LONGEST_FILTER = 1000

router = APIRouter(route_class=PageRoute, include_in_schema=False)


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
    parent: str = ""
    metadata: str = ""
    """A top-level key and its value, such as order=471."""

    def query(self) -> dict[str, Any]:
        """The filter as arguments of `Fairlead.documents`."""
        key, _, value = self.metadata.partition("=")
        return {
            "pipeline": self.pipeline or None,
            "reference": self.reference or None,
            "batch": self.batch or None,
            "parent": self.parent or None,
            "metadata": {key: value} if self.metadata else None,
            "customer": self.customer or None,
            "state": State(self.state) if self.state else None,
            "priority": self.priority,
            "name": self.text or None,
        }


def filter_of(page: PageRequest, sent: Mapping[str, str]) -> Filter:
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
        parent=values["parent"].strip(),
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
    locked: Annotated[int, Query(ge=0, le=MOST_AT_ONCE)] = 0,
) -> Response:
    page = await caller_page(request)
    chosen = filter_of(page, request.query_params)
    documents = await page.context.ask(_page, page, chosen, before)
    return page.show(
        "documents.html",
        rows=await page.context.ask(
            partial(
                document_rows,
                page.fairlead,
                documents[:ROWS],
                for_operator=page.caller.is_operator,
            )
        ),
        following=documents[ROWS - 1].id if len(documents) > ROWS else None,
        before=before,
        chosen=asdict(chosen),
        levels=await page.context.ask(_levels, page, chosen),
        notice=_notice(page, done, number, left=left, without_password=locked),
    )


def _notice(page: PageRequest, done: str, number: int, **others: int) -> str:
    """What a decision did with so many documents, and why it left others as they are."""
    if done not in texts.DONE_WITH_DOCUMENTS:
        return ""
    sentences = [page.counted(texts.DONE_WITH_DOCUMENTS[done], number)]
    sentences += [
        page.counted(texts.LEFT_OUT[why], number) for why, number in others.items() if number
    ]
    return " ".join(sentences)


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
    except (UnknownCustomer, UnknownDocument):
        return []


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
        "attachments": _attachments(page, document),
        "facts": shown_facts(document.facts, translator),
        "warnings": warnings(document.facts),
        "may_cancel": allows(document.state, Action.CANCEL),
        "may_retry": allows(document.state, Action.RETRY),
        "needs_password": remedy(document.error) is Remedy.PASSWORD,
    }


def _attachments(page: PageRequest, document: Document) -> list[dict[str, Any]]:
    if document.parts == 0:
        return []
    parts = page.fairlead.documents(parent=document.id, limit=ROWS).items
    rows = document_rows(page.fairlead, parts, for_operator=page.caller.is_operator)
    return rows[::-1]


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

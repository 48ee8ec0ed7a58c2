"""Cancelling, retrying and deleting documents: one, the selected ones, or all that match."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from fairlead.app import Fairlead
from fairlead.errors import InvalidTransition, UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.states import Action, State, allows
from fairlead.policy.failures import Remedy, may_succeed, remedy
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.documents import MOST_AT_ONCE, Filter, filter_of, visible
from fairlead.server.dashboard.page import (
    PageRequest,
    PageRoute,
    caller_page,
    check_may_change,
    form_lists,
    form_of,
    redirect,
)
from fairlead.server.problems import Problem, not_found

MOST_LOOKED_AT = 100_000
"""The most documents among which a decision about all looks for those that it can change."""
THREADS = 16
"""Documents that are changed at the same time, so that they share commits."""
PORTION = 1000

router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Decision(NamedTuple):
    """What may be decided about documents, and what it does with one of them."""

    name: str
    allows: Callable[[State], bool]
    apply: Callable[[Fairlead, str, str, str | None], object]
    """With the id of the document, that of the caller's key, and a password."""


DECISIONS = {
    decision.name: decision
    for decision in (
        Decision(
            "cancel",
            lambda state: allows(state, Action.CANCEL),
            lambda fairlead, id_, by, _: fairlead.cancel(id_, by=by),
        ),
        Decision(
            "retry",
            lambda state: allows(state, Action.RETRY),
            lambda fairlead, id_, by, password: fairlead.retry(id_, password=password, by=by),
        ),
        Decision(
            "delete",
            lambda _: True,
            lambda fairlead, id_, by, _: fairlead.delete(id_, by=by),
        ),
    )
}
_FOR_ALL = ("cancel", "retry")
"""Deletions cannot be undone, so only selected documents are deleted."""


@dataclass
class Choice:
    """The documents that a decision is about.

    `locked` are those that only a retry with a password may help, `left_out` the numbers of those
    that no retry helps, by failure code; it is empty if the documents were selected one by one.
    """

    documents: list[Document] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)


@router.get("/documents/{decision}")
async def confirm_page(
    request: Request,
    name: Annotated[str, Path(alias="decision")],
    *,
    id_: Annotated[list[str], Query(alias="id", max_length=PORTION)] = [],  # noqa: B006
    every_one: Annotated[bool, Query(alias="all")] = False,
    single: bool = False,
) -> Response:
    page = await caller_page(request)
    check_may_change(page)
    decision = _decision(name, every_one=every_one)
    chosen = filter_of(page, request.query_params)
    choice = await page.context.ask(_choice, page, decision, chosen, None if every_one else id_)
    values = {name: value for name, value in asdict(chosen).items() if value}
    fields = [*values.items()]
    if every_one:
        fields += [("all", "1"), ("until", repr(page.fairlead.store.now()))]
    else:
        fields += [("id", document.id) for document in choice.documents]
        fields += [("single", "1")] if single else []
    back: tuple[str, dict[str, Any]] = ("/documents", values)
    if single and id_:
        back = (f"/document/{id_[0]}", {})
    return page.show(
        "confirm_documents.html",
        decision=name,
        number=len(choice.documents),
        fields=fields,
        back=back,
        most=MOST_AT_ONCE,
        locked=len(choice.locked),
        left_out=choice.left_out.most_common(),
        **_words(page, decision, choice, is_selection=not every_one, has_selected=bool(id_)),
    )


def _words(
    page: PageRequest, decision: Decision, choice: Choice, *, is_selection: bool, has_selected: bool
) -> dict[str, Any]:
    """The question, what follows from it, and the button."""
    number, name, translate = len(choice.documents), decision.name, page.translator.text
    if is_selection and not has_selected:
        question, follows = texts.NOTHING_SELECTED, [texts.HOW_TO_SELECT]
    elif number == 0:
        question, follows = texts.NOTHING_TO[name], [texts.NONE_ALLOWED[name]]
    else:
        follows = [texts.FOLLOWS[name]]
        if name == "retry" and any(each.state is State.DONE for each in choice.documents):
            follows.append(texts.RESULT_STAYS)
        if name == "delete" and any(each.parts for each in choice.documents):
            follows.append(texts.PARTS_STAY)
        return {
            "question": page.counted(texts.WITH_DOCUMENTS[name], number),
            "follows": [translate(text) for text in follows],
            "button": page.counted(texts.BUTTONS[name], number),
        }
    follows = [] if choice.left_out else follows
    return {
        "question": translate(question),
        "follows": [translate(text) for text in follows],
        "button": "",
    }


def _decision(name: str, *, every_one: bool) -> Decision:
    if name not in (_FOR_ALL if every_one else DECISIONS):
        raise not_found()
    return DECISIONS[name]


def _choice(
    page: PageRequest,
    decision: Decision,
    chosen: Filter,
    ids: list[str] | None,
    until: float = math.inf,
) -> Choice:
    """The documents whose state allows the decision: of `ids`, or of all that match."""
    choice = Choice()
    if ids is not None:
        documents = (visible(page, id_) for id_ in dict.fromkeys(ids))
        choice.documents = [document for document in documents if decision.allows(document.state)]
        if decision.name == "retry":
            choice.locked = {each.id for each in choice.documents if _is_locked(each)}
        return choice
    for document in islice(_matching(page, decision, chosen, until), MOST_LOOKED_AT):
        if len(choice.documents) == MOST_AT_ONCE:
            break
        if decision.name == "retry" and not may_succeed(_failure(document)):
            choice.left_out[document.error or ""] += 1
        else:
            choice.documents.append(document)
    return choice


def _failure(document: Document) -> str | None:
    return document.error if document.state is State.FAILED else None


def _is_locked(document: Document) -> bool:
    return remedy(_failure(document)) is Remedy.PASSWORD


def _matching(
    page: PageRequest, decision: Decision, chosen: Filter, until: float
) -> Iterator[Document]:
    """Documents that match and were submitted until then, whose state allows the decision.

    Without a state in the filter, documents that are done do not match: to retry all is meant for
    those that failed or were cancelled.
    """
    for state in [State(chosen.state)] if chosen.state else State:
        is_chosen = state.value == chosen.state or state is not State.DONE
        if not decision.allows(state) or not is_chosen:
            continue
        query = chosen.query() | {"state": state}
        for document in page.fairlead.documents(**query, limit=PORTION):
            if document.submitted_at <= until:
                yield document


@router.post("/documents/{decision}")
async def decide(request: Request, name: Annotated[str, Path(alias="decision")]) -> Response:
    page = await caller_page(request)
    form = await form_of(request)
    decision = _decision(name, every_one="all" in form)
    chosen = filter_of(page, form)
    ids = None if "all" in form else (await form_lists(request)).get("id", [])
    try:
        until = float(form.get("until") or "inf")
    except ValueError:
        raise Problem("invalid-request", "until must be a time in seconds since 1970") from None
    password = form.get("password") or None
    outcome = await page.context.ask(_decide, page, decision, chosen, ids, until, password)
    if "single" in form and ids and name != "delete":
        return redirect(f"/document/{ids[0]}")
    values = {name: value for name, value in asdict(chosen).items() if value}
    return redirect("/documents", done=name, **outcome, **values)


def _decide(
    page: PageRequest,
    decision: Decision,
    chosen: Filter,
    ids: list[str] | None,
    until: float,
    password: str | None,
) -> dict[str, int]:
    """How many documents changed, and how many did not: by their state, or without a password."""
    fairlead, by = page.fairlead, page.caller.key_id
    choice = _choice(page, decision, chosen, ids, until)
    locked = choice.locked if password is None else set()
    allowed = [document for document in choice.documents if document.id not in locked]

    def apply(document: Document) -> bool:
        own = password if document.id in choice.locked else None
        try:
            decision.apply(fairlead, document.id, by, own)
        except (InvalidTransition, UnknownDocument):
            return False
        return True

    with ThreadPoolExecutor(THREADS, thread_name_prefix="decide") as pool:
        done = sum(pool.map(apply, allowed))
    asked = len(choice.documents if ids is None else ids)
    return {"number": done, "left": asked - done - len(locked), "locked": len(locked)}

"""When pending documents are expected to end, or what must happen before that can be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairlead.errors import UnknownDocument
from fairlead.model.customers import CustomerRecord
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation
from fairlead.model.pipelines import Pipeline
from fairlead.model.states import State
from fairlead.policy.serving import serving_of
from fairlead.storage import Store

Why = Callable[[str], Explanation]
NEWEST_WAITING = 20
"""The waiting documents among which to look for delayed ones."""


class PendingEnd(NamedTuple):
    """The expected end of all pending documents of a customer; None: there are none.

    `waits_for` is what must happen before it is known: "resume" (the customer is paused) or
    "worker" (nobody serves a queue that they need).
    """

    at: float | None = None
    waits_for: str | None = None


def expected_end(
    store: Store, why: Why, pipelines: Sequence[Pipeline], document: Document
) -> float | None:
    """Never before now; None if nobody serves it or its later steps, or it cannot be told."""
    try:
        start = _expected_start(store, why, pipelines, document)
    except UnknownDocument:  # it was deleted meanwhile
        return None
    return None if start is None else max(store.now(), start + document.estimate)


def pending_end(
    store: Store, why: Why, pipelines: Sequence[Pipeline], customer: CustomerRecord
) -> PendingEnd:
    """The end of the last of a customer's pending documents."""
    if not customer.pending:
        return PendingEnd()
    if customer.paused and customer.waiting:
        return PendingEnd(waits_for="resume")
    ends = [
        expected_end(store, why, pipelines, document)
        for document in _last_to_end(store, customer.name)
    ]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return PendingEnd(waits_for="worker")
    return PendingEnd(max(known, default=None))


def _last_to_end(store: Store, customer: str) -> list[Document]:
    """The newest processing document, the last of each queue, and delayed ones."""
    documents = store.documents(customer=customer, state=State.PROCESSING, limit=1)
    newest = store.documents(customer=customer, state=State.WAITING, limit=NEWEST_WAITING)
    last = set(store.last_waiting(customer))
    documents += [each for each in newest if each.id not in last and _is_delayed(store, each)]
    for id_ in last:
        try:
            documents.append(store.document(id_))
        except UnknownDocument:  # it was deleted meanwhile
            continue
    return documents


def _is_delayed(store: Store, document: Document) -> bool:
    try:
        return store.stored_document(document.id).retry_at is not None
    except UnknownDocument:
        return False


def _expected_start(
    store: Store, why: Why, pipelines: Sequence[Pipeline], document: Document
) -> float | None:
    stored = store.stored_document(document.id)
    served = serving_of(store.engines(), pipelines).served
    remaining = _remaining_queues(pipelines, document.pipeline, stored.queue)
    if document.state is State.PROCESSING:
        return document.started_at if served.issuperset(remaining[1:]) else None
    if not served.issuperset(remaining):
        return None
    if stored.retry_at is not None:
        return stored.retry_at
    forecast = why(document.id).forecast
    return None if forecast is None else forecast.expected


def _remaining_queues(pipelines: Sequence[Pipeline], name: str, queue: str) -> list[str]:
    """The queue of a document, and those through which it goes afterwards."""
    for pipeline in pipelines:
        names = [own.name for own in pipeline.queues]
        if pipeline.name == name and queue in names:
            return names[names.index(queue) :]
    return [queue]

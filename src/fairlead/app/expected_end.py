"""When a pending document is expected to end: its expected start and its estimate."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.errors import UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.explanations import Explanation
from fairlead.model.states import State
from fairlead.storage import Store


def expected_end(
    store: Store, why: Callable[[str], Explanation], document: Document
) -> float | None:
    """Never before now; None if no worker serves the document, or it was deleted."""
    start = _expected_start(store, why, document)
    return None if start is None else max(store.now(), start + document.estimate)


def is_delayed(store: Store, document: Document) -> bool:
    return document.not_before is not None and document.not_before > store.now()


def _expected_start(
    store: Store, why: Callable[[str], Explanation], document: Document
) -> float | None:
    if document.state is State.PROCESSING:
        return document.started_at
    if is_delayed(store, document):
        has_workers = store.flow().workers > 0
        is_served = has_workers and store.pipeline_state(document.pipeline).is_served
        return document.not_before if is_served else None
    try:
        forecast = why(document.id).forecast
    except UnknownDocument:
        return None
    return None if forecast is None else forecast.expected

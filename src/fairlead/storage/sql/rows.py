"""Rows of the database as the things they stand for, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.model.documents import Customer, CustomerSettings, Document, Event, EventKind
from fairlead.model.states import State
from fairlead.policy.classic import Counter
from fairlead.policy.fair import Tags

Row = tuple[Any, ...]

_KINDS = {each.value: each for each in EventKind}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

THOUSANDTHS = 1000.0
"""Weights are kept in thousandths."""


def document(row: Row) -> Document:
    """A row of `select_document`."""
    fields = list(row)  # in the order of Document's fields
    fields[6] = State(fields[6])
    fields[10] = bool(fields[10])
    fields[18] = json.loads(fields[18]) if fields[18] else {}
    return Document(*fields)


def customer(row: Row) -> Customer:
    """A row of `select_customer`."""
    name, created_at, count, counted_at, paused = row[:5]
    processing_cap, pending_cap, reset_interval, thresholds = row[5:9]
    waiting, processing, last_started_at, oldest_waiting_at, account, weight = row[9:15]
    requests_a_second, requests_burst, bytes_a_day = row[18:]
    return Customer(
        name=name,
        created_at=created_at,
        counter=counter(count, counted_at),
        paused=bool(paused),
        settings=CustomerSettings(
            weight=weight / THOUSANDTHS,
            account=account,
            processing_cap=processing_cap,
            pending_cap=pending_cap,
            reset_interval=reset_interval,
            thresholds=thresholds_from(thresholds),
            requests_a_second=requests_a_second,
            requests_burst=requests_burst,
            bytes_a_day=bytes_a_day,
        ),
        waiting=waiting,
        processing=processing,
        last_started_at=last_started_at,
        oldest_waiting_at=oldest_waiting_at,
        tags=tags_from(*row[15:18]),
    )


def event(row: Row) -> Event:
    """A row of `select_events`."""
    seq, at, kind, customer_name, document_id, data, actor = row
    read = json.loads(data) if data else {}
    return Event(seq, at, _KINDS[kind], customer_name, document_id, read, actor)


def counter(count: int | None, counted_at: float | None) -> Counter | None:
    """A customer's record; None where it was never checked."""
    return None if count is None or counted_at is None else Counter(count, counted_at)


def tags_from(finish: float | None, last: float | None, submitted_at: float | None) -> Tags | None:
    """An account's record of the fair rule; None where it never sent anything."""
    if finish is None or last is None or submitted_at is None:
        return None
    return Tags(finish, last, submitted_at)


def thresholds_from(text: str | None) -> tuple[int, ...] | None:
    """Thresholds as they are kept."""
    return None if text is None else tuple(json.loads(text))


def thresholds_to(thresholds: Sequence[int] | None) -> str | None:
    """Thresholds as text to keep."""
    return None if thresholds is None else json.dumps(list(thresholds))


def data_text(data: Mapping[str, Any]) -> str | None:
    """Facts, or an event's data, as text to keep; nothing where there is none."""
    return _ENCODER.encode(data) if data else None

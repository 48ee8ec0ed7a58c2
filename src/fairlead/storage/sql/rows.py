"""Rows of the database as records: each `SELECT` follows from the fields of its record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from fairlead.model.customers import Counter, CustomerRecord, CustomerSettings, Tags
from fairlead.model.documents import Document, Event, EventKind, StoredDocument
from fairlead.model.keys import Key
from fairlead.model.states import State
from fairlead.model.webhooks import Delivery, Status, Webhook

Row = tuple[Any, ...]
T = TypeVar("T", bound=Struct)

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

THOUSANDTHS = 1000.0
"""Weights are kept in thousandths."""


class Columns:
    """A list of columns by name. `expressions`: those that are not the table's own of that name."""

    def __init__(self, names: Sequence[str], table: str, source: str, **expressions: str) -> None:
        self._names = tuple(names)
        columns = [expressions.get(name, f"{table}.{name}") for name in names]
        self.select = f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608 (names of fields)

    def named(self, row: Row) -> dict[str, Any]:
        return dict(zip(self._names, row, strict=True))


class Records(Columns, Generic[T]):
    """Rows of which each is a record, whose fields are the columns."""

    def __init__(
        self,
        record: type[T],
        table: str,
        source: str,
        convert: Mapping[str, Callable[[Any], Any]],
        **expressions: str,
    ) -> None:
        names = record.__struct_fields__
        super().__init__(names, table, source, **expressions)
        self._record = record
        self._convert = [(names.index(name), convert[name]) for name in convert]

    def read(self, row: Row) -> T:
        values = list(row)
        for index, convert in self._convert:
            values[index] = convert(values[index])
        return self._record(*values)


def _object(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


_DOCUMENTS = "documents d JOIN customers c ON c.id = d.customer"
DOCUMENT = Records(
    Document,
    "d",
    _DOCUMENTS,
    {"state": State, "urgent": bool, "facts": _object},
    customer="c.name",
    parent="CASE WHEN d.parent IS NOT NULL THEN coalesce("
    "(SELECT id FROM documents WHERE seq = d.parent), "
    "(SELECT id FROM deleted WHERE seq = d.parent)) END",
)
STORED_DOCUMENT = Records(StoredDocument, "d", "documents d", {})
EVENT = Records(
    Event,
    "e",
    "events e LEFT JOIN customers c ON c.id = e.customer "
    "LEFT JOIN documents d ON d.seq = e.document LEFT JOIN deleted x ON x.seq = e.document",
    {"kind": {each.value: each for each in EventKind}.__getitem__, "data": _object},
    customer="c.name",
    document="coalesce(d.id, x.id)",
)
KEY = Records(
    Key,
    "k",
    "keys k LEFT JOIN customers c ON c.id = k.customer",
    {"operator": bool},
    customer="c.name",
    operator="k.customer IS NULL",
)
WEBHOOK = Records(
    Webhook,
    "w",
    "webhooks w JOIN customers c ON c.id = w.customer",
    {"kinds": lambda text: tuple(json.loads(text)), "enabled": bool},
    customer="c.name",
)
DELIVERY = Records(
    Delivery,
    "d",
    "deliveries d",
    {"status": Status},
    id="'msg_' || d.webhook || '_' || d.seq",
    status="CASE WHEN d.due_at IS NOT NULL THEN 'pending' "
    "WHEN d.delivered = 1 THEN 'delivered' ELSE 'failed' END",
    next_at="d.due_at",
)

_SETTINGS = CustomerSettings.__struct_fields__
_OF_THE_ACCOUNT = ("account", "weight")
OWN_SETTINGS = tuple(name for name in _SETTINGS if name not in _OF_THE_ACCOUNT)
"""Settings that are columns of the table of customers."""
_PLAIN = ("name", "created_at", "waiting", "processing", "last_started_at", "oldest_waiting_at")
CUSTOMER = Columns(
    (*_PLAIN, "paused", "count", "counted_at", "finish", "last_tag", "submitted_at", *_SETTINGS),
    "c",
    "customers c JOIN accounts a ON a.id = c.account",
    oldest_waiting_at="(SELECT d.submitted_at FROM documents d INDEXED BY arrivals "
    "WHERE d.customer = c.id AND d.queued = 1 ORDER BY d.slot_seq LIMIT 1)",
    account="a.name",
    **{name: f"a.{name}" for name in ("weight", "finish", "last_tag", "submitted_at")},
)
SET_CUSTOMER = (
    f"UPDATE customers SET {', '.join(f'{each} = ?' for each in OWN_SETTINGS)} WHERE id = ?"  # noqa: S608 (names of fields)
)


def customer(row: Row) -> CustomerRecord:
    values = CUSTOMER.named(row)
    values["weight"] /= THOUSANDTHS
    values["thresholds"] = thresholds_from(values["thresholds"])
    return CustomerRecord(
        **{name: values[name] for name in _PLAIN},
        paused=bool(values["paused"]),
        counter=counter(values["count"], values["counted_at"]),
        tags=tags_from(values["finish"], values["last_tag"], values["submitted_at"]),
        settings=CustomerSettings(**{name: values[name] for name in _SETTINGS}),
    )


def own_settings(settings: CustomerSettings) -> list[Any]:
    """The values of `OWN_SETTINGS` as they are kept."""
    values = {name: getattr(settings, name) for name in OWN_SETTINGS}
    return list((values | {"thresholds": thresholds_to(settings.thresholds)}).values())


def counter(count: int | None, counted_at: float | None) -> Counter | None:
    return None if count is None or counted_at is None else Counter(count, counted_at)


def tags_from(finish: float | None, last: float | None, submitted_at: float | None) -> Tags | None:
    """An account's record of the fair rule; None where it never sent anything."""
    if finish is None or last is None or submitted_at is None:
        return None
    return Tags(finish, last, submitted_at)


def thresholds_from(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(json.loads(text))


def thresholds_to(thresholds: Sequence[int] | None) -> str | None:
    return None if thresholds is None else json.dumps(list(thresholds))


def data_text(data: Mapping[str, Any]) -> str | None:
    """Facts, or an event's data, as text to keep; nothing where there is none."""
    return _ENCODER.encode(data) if data else None


# --- copying a store ---

TABLES = (
    *("accounts", "customers", "documents", "line_state", "idempotency", "events"),
    *("attendance", "costs", "webhooks", "deliveries", "keys", "deleted", "short_texts"),
    *("short_originals", "tallies"),
)
"""Every table, those that others refer to first."""
NUMBERED = {"accounts": "id", "customers": "id", "events": "seq", "deliveries": "seq"}
"""Tables whose rows get the next number by themselves."""


class TableCopy(Protocol):
    """All rows of a store in which nothing changes while they are read."""

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]: ...

    def last_number(self, table: str) -> int:
        """The highest number that a row of this table ever had."""

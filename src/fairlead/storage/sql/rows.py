"""Rows of the database as records: each `SELECT` follows from the fields of its record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.model.customers import Counter, CustomerSettings
from fairlead.model.documents import Document, Event, EventKind, ResultFile
from fairlead.model.keys import Key, Role
from fairlead.model.pipelines import READ
from fairlead.model.results import Content
from fairlead.model.states import State
from fairlead.model.webhooks import Delivery, Status, Webhook
from fairlead.policy.rules import Rules
from fairlead.storage.sql.part_columns import PARENT_NAMES, PARTS, PARTS_DONE

Row = tuple[Any, ...]
T = TypeVar("T", bound=Struct)

_ENCODER = msgspec.json.Encoder()


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


def _files(text: str | None) -> tuple[ResultFile, ...]:
    return _FILES.decode(text) if text else ()


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(text.split("/")) if text else ()


def files_text(files: Sequence[Content]) -> str | None:
    """The files of a result by name as text to keep, without their bytes."""
    named = sorted(files, key=lambda file: file.name)
    shown = [ResultFile(each.name, each.media_type or "", each.size, each.sha256) for each in named]
    return _ENCODER.encode(shown).decode() if shown else None


_FILES = msgspec.json.Decoder(tuple[ResultFile, ...])
_DOCUMENTS = (
    "documents d JOIN customers c ON c.id = d.customer "
    "LEFT JOIN running r ON d.state = 'waiting' AND r.document = d.seq "
    "LEFT JOIN waiting w INDEXED BY waiting_by_age ON d.state = 'waiting' "
    "AND w.customer = d.customer AND w.pipeline = coalesce(d.queue, d.pipeline) "
    "AND w.document = d.seq "
    "LEFT JOIN delayed y ON d.state = 'waiting' AND y.document = d.seq "
    "LEFT JOIN interim i ON d.state = 'waiting' AND i.document = d.seq"
)
DOCUMENT = Records(
    Document,
    "d",
    _DOCUMENTS,
    {
        "state": State,
        "urgent": bool,
        "metadata": _object,
        "facts": _object,
        "files": _files,
        "parent_names": _names,
    },
    customer="c.name",
    state="CASE WHEN r.document IS NULL THEN d.state ELSE 'processing' END",
    started_at="coalesce(r.started_at, d.started_at)",
    attempts="coalesce(r.attempts, w.attempts, y.attempts, d.attempts)",
    error="coalesce(d.error, r.error, w.error, y.error)",
    detail="coalesce(d.detail, r.detail, w.detail, y.detail)",
    parent="CASE WHEN d.parent IS NOT NULL THEN coalesce("
    "(SELECT id FROM documents WHERE seq = d.parent), "
    "(SELECT id FROM deleted WHERE seq = d.parent)) END",
    parent_names=PARENT_NAMES,
    parts=PARTS,
    parts_done=PARTS_DONE,
    step="coalesce(d.step, i.step)",
    step_attempt="coalesce(d.step_attempt, "
    "i.step_attempts + CASE WHEN r.document IS NULL THEN 0 ELSE 1 END)",
)


def document_from(row: Row, rules: Rules) -> Document:
    """A document. As long as none of its steps has ended, the first one runs, or failed."""
    document = DOCUMENT.read(row)
    has_begun = document.state is State.PROCESSING or document.error is not None
    if document.step is not None or not document.state.is_pending or not has_begun:
        return document
    step = rules.first_step(document.pipeline)
    if step is None:  # of a pipeline that only other processes know
        return document
    return replace(document, step=step, step_attempt=document.attempts if step == READ else 1)


EVENT = Records(
    Event,
    "e",
    "events e LEFT JOIN customers c ON c.id = e.customer "
    "LEFT JOIN documents d ON d.seq = e.document LEFT JOIN deleted x ON x.seq = e.document",
    {
        "kind": {each.value: each for each in EventKind}.__getitem__,
        "data": _object,
        "metadata": _object,
    },
    customer="c.name",
    document="coalesce(d.id, x.id)",
    reference="d.reference",
    metadata="d.metadata",
)
KEY = Records(
    Key,
    "k",
    "access_keys k LEFT JOIN customers c ON c.id = k.customer",
    {"operator": bool, "role": Role},
    customer="c.name",
    operator="k.role = 'operator'",
)
WEBHOOK = Records(
    Webhook,
    "w",
    "webhooks w LEFT JOIN customers c ON c.id = w.customer",
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

CUSTOMER_SELECT = (
    "SELECT c.id, c.name, c.account, c.paused, c.count, c.counted_at, c.day, c.day_bytes, "
    "c.settings, c.created_at, a.weight FROM customers c LEFT JOIN accounts a ON a.id = c.account"
)
"""The columns of `CustomerRow`, then its time and the weight of a shared account."""


class CustomerRow(NamedTuple):
    """A customer's row; `account` is a shared one."""

    id: int
    name: str
    account: int | None
    paused: int
    classic_count: int | None
    counted_at: float | None
    day: int
    day_bytes: int
    settings: str

    @property
    def counter(self) -> Counter | None:
        """The classic rule's record; None: never checked."""
        return counter(self.classic_count, self.counted_at)

    @property
    def own_settings(self) -> CustomerSettings:
        """Its settings; the weight is its account's where it shares one."""
        return settings_from(self.settings)


def counter(count: int | None, counted_at: float | None) -> Counter | None:
    return None if count is None or counted_at is None else Counter(count, counted_at)


@lru_cache(1024)
def settings_from(text: str) -> CustomerSettings:
    """Settings as they are kept: a JSON object of those that differ from the usual ones."""
    if text == "{}":
        return _USUAL
    return msgspec.json.decode(text, type=CustomerSettings)


_USUAL = CustomerSettings()


def settings_text(settings: CustomerSettings) -> str:
    return msgspec.json.encode(settings.changes()).decode()


def data_text(data: Mapping[str, Any]) -> str | None:
    """Facts, or an event's data, as text to keep; nothing where there is none."""
    return _ENCODER.encode(data).decode() if data else None


# --- copying a store ---

TABLES = (
    "accounts",
    "customers",
    "documents",
    "retry_slots",
    "deleted",
    "originals",
    "results",
    "batches",
    "metadata_terms",
    "interim",
    "job_ends",
    "deleted_customers",
    "idempotency_keys",
    "waiting",
    "delayed",
    "running",
    "leases",
    "queue_events",
    "queue_members",
    "queue_entries",
    "queue_state",
    "queue_tallies",
    "queue_costs",
    "attendance",
    "blob_places",
    "usage",
    "events",
    "access_keys",
    "webhooks",
    "deliveries",
)
"""Every table, those that others refer to first."""
NUMBERED = {
    "accounts": "id",
    "customers": "id",
    "events": "seq",
    "deliveries": "seq",
    "queue_events": "id",
    "usage": "id",
}
"""Tables whose rows get the next number by themselves."""


class TableCopy(Protocol):
    """All rows of a store in which nothing changes while they are read."""

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]: ...

    def last_number(self, table: str) -> int:
        """The highest number that a row of this table ever had."""

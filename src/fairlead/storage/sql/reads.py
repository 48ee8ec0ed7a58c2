"""Questions to the store. They change nothing and wait for no writer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fairlead.errors import Message, UnknownCustomer, UnknownDocument, UnknownKey
from fairlead.model.access_keys import Key, StoredKey, Tally
from fairlead.model.customers import CustomerRecord, Fairness, Overdue, Share
from fairlead.model.documents import Document, Event, StoredDocument, Totals
from fairlead.model.explanations import CustomerAhead, QueuePlace
from fairlead.model.states import State
from fairlead.policy.fairness import jain_index
from fairlead.policy.forecast import FinishedDocument, Flow, RecentArrival, RunningDocument
from fairlead.storage.sql import rows
from fairlead.storage.sql.connection import Connection
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import Transaction

MOST_NAMED = 5
"""How many of the customers ahead are named."""


def document(connection: Connection, id_: str) -> Document:
    """The document of this id."""
    row = connection.execute(rows.DOCUMENT.select + " WHERE d.id = ?", (id_,)).fetchone()
    if row is None:
        raise unknown_document(id_)
    return rows.DOCUMENT.read(row)


def stored_document(connection: Connection, id_: str) -> StoredDocument:
    """What storage keeps of a document beyond what is shown."""
    row = connection.execute(rows.STORED_DOCUMENT.select + " WHERE d.id = ?", (id_,)).fetchone()
    if row is None:
        raise unknown_document(id_)
    return rows.STORED_DOCUMENT.read(row)


def unknown_document(id_: str) -> UnknownDocument:
    """The error for an id that no document has."""
    return UnknownDocument(f"no document has the id {id_!r}; see: fairlead docs list")


def documents(
    connection: Connection,
    *,
    customer: str | None,
    state: State | None,
    priority: int | None,
    parent: str | None,
    name: str | None,
    before: str | None,
    limit: int,
) -> list[Document]:
    """Documents, newest first; `before` is the id of the last one of the page before."""
    wanted: list[tuple[str, Any]] = [
        ("d.customer = (SELECT id FROM customers WHERE name = ?)", customer),
        ("d.state = ?", state),
        ("d.priority = ?", priority),
        (f"d.parent = ({sql('seq_of_document')})", parent),
        ("lower(d.name) LIKE lower(?) ESCAPE '\\'", name and _containing(name)),
        (sql("before_document"), before),
    ]
    asked = [(term, value) for term, value in wanted if value is not None]
    where = " WHERE " + " AND ".join(term for term, _ in asked) if asked else ""
    query = rows.DOCUMENT.select + where + " ORDER BY d.seq DESC LIMIT ?"
    values = (*(value for _, value in asked), limit)
    return [rows.DOCUMENT.read(row) for row in connection.execute(query, values)]


def _containing(part: str) -> str:
    """A pattern for texts that have this in them, whatever its characters mean in patterns."""
    escaped = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def customer(connection: Connection, name: str) -> CustomerRecord:
    """The customer of this name."""
    row = connection.execute(rows.CUSTOMER.select + " WHERE c.name = ?", (name,)).fetchone()
    if row is None:
        raise unknown_customer(name)
    return rows.customer(row)


def unknown_customer(name: str, *, hint: str = "see: fairlead customers list") -> UnknownCustomer:
    """The error for a name that no customer has."""
    return UnknownCustomer(Message("unknown customer {name}", name=repr(name), hint=hint))


def customers(connection: Connection) -> list[CustomerRecord]:
    """All customers, by name."""
    query = rows.CUSTOMER.select + " ORDER BY c.name"
    return [rows.customer(row) for row in connection.execute(query)]


def events(connection: Connection, after: int, limit: int, customer: str | None) -> list[Event]:
    """Events after the one of this number, oldest first."""
    of_one = (
        "" if customer is None else "e.customer = (SELECT id FROM customers WHERE name = ?) AND "
    )
    query = f"{rows.EVENT.select} WHERE {of_one}e.seq > ? ORDER BY e.seq LIMIT ?"
    values = (after, limit) if customer is None else (customer, after, limit)
    return [rows.EVENT.read(row) for row in connection.execute(query, values)]


def events_of(connection: Connection, document: str) -> list[Event]:
    """All events of one document, oldest first."""
    query = rows.EVENT.select + f" WHERE e.document = ({sql('seq_of_document')}) ORDER BY e.seq"
    return [rows.EVENT.read(row) for row in connection.execute(query, (document,))]


def audit(connection: Connection, before: int | None, limit: int) -> list[Event]:
    """What somebody decided, newest first."""
    query = rows.EVENT.select + (
        " WHERE e.actor IS NOT NULL AND e.seq < ? ORDER BY e.seq DESC LIMIT ?"
    )
    newest = 2**62 if before is None else before
    return [rows.EVENT.read(row) for row in connection.execute(query, (newest, limit))]


def key(connection: Connection, id_: str) -> Key:
    """The key of this id."""
    row = connection.execute(rows.KEY.select + " WHERE k.id = ?", (id_,)).fetchone()
    if row is None:
        raise unknown_key(id_)
    return rows.KEY.read(row)


def stored_key(connection: Connection, id_: str) -> StoredKey:
    """The key of this id with the hash of its secret."""
    return StoredKey(key(connection, id_), connection.execute(sql("access_key_sha256"), (id_,)).get)


def unknown_key(id_: str) -> UnknownKey:
    """The error for an id that no key has."""
    return UnknownKey(
        Message("no API key has the id {id}", id=repr(id_), hint="see: fairlead keys list")
    )


def keys(connection: Connection) -> list[Key]:
    """All keys, oldest first."""
    query = rows.KEY.select + " ORDER BY k.created_at, k.id"
    return [rows.KEY.read(row) for row in connection.execute(query)]


def tallies(connection: Connection) -> list[Tally]:
    """How many documents of each priority are in each state."""
    return [Tally(*row) for row in connection.execute(sql("tallies"))]


def deleted_customer(connection: Connection, id_: str) -> str | None:
    """Whose document of this id was deleted; None: none was."""
    name: str | None = connection.execute(sql("deleted_customer"), (id_,)).get
    return name


def totals(connection: Connection) -> Totals:
    """How much there is, over all customers."""
    row = connection.execute(sql("totals")).fetchone()
    return Totals(*row) if row else Totals(0, 0, 0)


def place(connection: Connection, id_: str) -> QueuePlace | None:
    """What goes before a document, as things stand; None where it is not in the queue."""
    row = connection.execute(sql("place_of_document"), (id_,)).fetchone()
    if row is None:
        return None
    customer, urgent, rank, seq, lift = row
    own = connection.execute(sql("ahead_in_customer"), (customer, urgent, rank, seq)).fetchone()
    assert own is not None  # noqa: S101 (an aggregate always has a row)
    slot = connection.execute(sql("nth_slot"), (customer, own[0])).fetchone()
    assert slot is not None  # noqa: S101 (the document itself holds one)
    tag = slot[0] + lift
    key = (customer, tag, slot[1])
    others: list[rows.Row] = connection.execute(sql("ahead_in_line"), key).fetchall()
    return QueuePlace(
        own_documents=own[0],
        other_documents=sum(number for _, number, _ in others),
        other_customers=len(others),
        tag=tag,
        seconds=own[1] + sum(seconds for _, _, seconds in others),
        own_seconds=own[1],
        most=tuple(CustomerAhead(name, number) for name, number, _ in others[:MOST_NAMED]),
    )


def fairness(tx: Transaction) -> Fairness:
    """How fair the queue is, as numbers."""
    run = tx.connection.execute
    accounts = tuple(
        Share(name, done, due, due - done)
        for name, done, due in run(sql("shares"), (tx.now, tx.ideal))
    )
    lane_work, all_work = run(sql("lane_use")).fetchone() or (0.0, 0.0)
    overdue, bound = _most_overdue(tx), tx.start_bound
    return Fairness(
        policy=tx.policy,
        workers=tx.workers,
        waiting_customers=tx.customers,
        jain_index=jain_index(accounts, least_due=tx.longest),
        most_overdue=overdue,
        lane_share=lane_work / all_work if all_work else None,
        longest_document=tx.longest,
        start_bound=bound,
        bound_broken=overdue is not None and bound is not None and overdue.seconds > bound,
        accounts=accounts,
    )


def _most_overdue(tx: Transaction) -> Overdue | None:
    """The customer that has waited longest for a start, if it is overdue."""
    row = tx.connection.execute(sql("longest_waiting")).fetchone()
    if row is None:
        return None
    _, since, runnable_since, _, name = row
    return Overdue(name, max(0.0, tx.now - max(since, runnable_since)))


def flow(tx: Transaction) -> Flow:
    """The work of late. It reads a bounded number of rows, however many there are."""
    run, now = tx.connection.execute, tx.now
    unit = tx.rules.unit
    return Flow(
        workers=tx.workers,
        running=tuple(
            RunningDocument(max(0.0, now - since), cost, customer)
            for since, cost, customer in run(sql("running"))
        ),
        arrived=tuple(
            RecentArrival(max(0.0, now - at), -count * unit if tx.is_fair else level, cost)
            for at, level, count, cost in run(sql("latest_arrivals"))
        ),
        finished=tuple(FinishedDocument(*row) for row in run(sql("latest_costs"))),
    )


def known_documents(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Those of the ids that are documents."""
    found = connection.execute(sql("known_documents"), (json.dumps(list(ids)),))
    return {row[0] for row in found}


def known_texts(connection: Connection, ids: Iterable[str]) -> set[str]:
    """The keys of the texts that belong to these documents."""
    found = connection.execute(sql("known_texts"), (json.dumps(list(ids)),))
    return {key for row in found for key in row if key is not None}

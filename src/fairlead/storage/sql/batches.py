"""Batches: adding documents, and the event when none of the documents is pending any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fairlead.errors import BatchEnded, Message, UnknownBatch
from fairlead.model.batches import Batch, StoredBatch
from fairlead.model.documents import EventKind
from fairlead.model.json import to_dict
from fairlead.model.webhooks import KINDS
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.transaction import Transaction


class BatchRow(NamedTuple):
    """A locked batch."""

    id: str
    customer: int
    finished_at: float | None


def lock_batches(tx: Transaction, ids: Iterable[str]) -> dict[str, BatchRow]:
    """The batches of these ids, locked in order of id to prevent deadlocks."""
    values = (tx.connection.array(sorted(ids)),)
    return {row[0]: BatchRow(*row) for row in tx.connection.execute(sql("lock_batches"), values)}


def check_open(row: BatchRow | None, id_: str, customer: int) -> None:
    """Refuse to add to a batch of another customer, or to one that has ended."""
    if row is None or row.customer != customer:
        raise unknown_batch(id_)
    if row.finished_at is not None:
        raise BatchEnded(
            Message(
                "batch {id} has ended: none of its documents is pending; submit without it",
                id=repr(id_),
            )
        )


def unknown_batch(id_: str) -> UnknownBatch:
    return UnknownBatch(Message("no batch has the id {id}; check the id", id=repr(id_[:100])))


def settle_batches(tx: Transaction, ids: Iterable[str | None]) -> None:
    """Finish the batches without pending documents.

    If two transactions end documents of one batch at once, the lock makes the second one wait for
    the commit of the first, so that it sees the documents that the first one ended.
    """
    batch_ids = {id_ for id_ in ids if id_ is not None}
    if not batch_ids:
        return
    run = tx.connection.execute
    locked = [row for row in lock_batches(tx, batch_ids).values() if row.finished_at is None]
    pending = [run(sql("is_batch_pending"), (row.id,)) for row in locked]  # in one round trip
    ended = [row for row, is_pending in zip(locked, pending, strict=True) if not is_pending.get]
    for row in ended:
        run(sql("finish_batch"), (tx.now, row.id))
    reads = [ask_batch(tx.connection, row.id) for row in ended]
    for row, read in zip(ended, reads, strict=True):
        batch = read().batch
        counts = {"done": batch.done, "failed": batch.failed, "cancelled": batch.cancelled}
        tx.add_event(EventKind.BATCH_DONE, row.customer, batch=row.id, **counts)
        tx.add_delivery(row.customer, KINDS[EventKind.BATCH_DONE], to_dict(batch))


def read_batch(connection: Connection, id_: str) -> StoredBatch:
    return ask_batch(connection, id_)()


def ask_batch(connection: Connection, id_: str) -> Callable[[], StoredBatch]:
    """Send the queries of a batch; the returned function reads their results."""
    run = connection.execute
    row, states = run(sql("batch"), (id_,)), run(sql("states_of_batch"), (id_,))
    last_pending = run(sql("last_pending_of_batch"), (id_,))
    return lambda: _batch(id_, row.fetchone(), states.fetchall(), last_pending.get)


def _batch(
    id_: str,
    row: tuple[Any, ...] | None,
    states: Iterable[tuple[str, int]],
    last_pending: str | None,
) -> StoredBatch:
    if row is None:
        raise unknown_batch(id_)
    _, customer, created_at, finished_at = row
    numbers = dict(states)
    names = ("waiting", "processing", "done", "failed", "cancelled")
    counts = {name: numbers.get(name, 0) for name in names}
    total, pending = sum(counts.values()), counts["waiting"] + counts["processing"]
    progress = round(1 - pending / total, 4) if total else 1.0
    batch = Batch(
        id=id_,
        customer=customer,
        created_at=created_at,
        finished_at=finished_at,
        documents=total,
        progress=progress,
        **counts,
    )
    return StoredBatch(batch, last_pending)

"""Decisions of people about documents, customers and keys: cancel, retry, delete, pause, reset."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from fairlead.errors import InvalidTransition, Message, PendingCapReached
from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import DocumentCheck, EventKind
from fairlead.model.keys import KeyOwner
from fairlead.model.pipelines import pipeline_of
from fairlead.model.states import Action, State, after
from fairlead.model.submissions import NotBefore
from fairlead.policy.queue_events import Dropped, MemberChanged, Reset
from fairlead.storage.sql import ends, reads, rows
from fairlead.storage.sql.accept import add_customer, buried_name, lock_customers
from fairlead.storage.sql.batches import settle_batches
from fairlead.storage.sql.parts import settle_parts
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import NOBODY, Transaction
from fairlead.storage.sql.waiting_rows import Waiting, arrived
from fairlead.storage.sql.webhook_rows import forget_customer, forget_document

_OF_CUSTOMER = (
    "delete_keys_of_customer",
    "delete_idempotency_keys",
    "forget_deleted_documents",
    "delete_batches",
    "empty_events",
    "delete_customer",
)
"""Statements that remove a customer, in the order of their references."""
_QUEUE_READS = 3
"""A claim may move a document from one table of the queue to another between two reads."""


class DocumentRow(NamedTuple):
    """The columns of a document for a decision; `state` is waiting during processing, too.

    `pipeline` is the queue in which it waits, or waited last.
    """

    seq: int
    customer: int
    pipeline: str
    state: str
    priority: int
    urgent: int
    estimate: float
    submitted_at: float
    batch: str | None
    root: int | None


def cancel_document(tx: Transaction, id_: str, check: DocumentCheck | None = None) -> None:
    """Cancel a pending document; a cancelled one does not change."""
    document = find_document(tx, id_)
    is_cancelled = document.state == State.CANCELLED
    if not is_cancelled:
        after(State(document.state), Action.CANCEL)
    run_check(tx, id_, check)
    if is_cancelled:
        return
    taken = _take_from_queue(tx, document)
    before, started_at = "waiting", None
    if isinstance(taken, ends.Running):
        before, started_at = "processing", taken.started_at
    values = (document.seq, started_at, tx.now, taken.attempts, taken.error, taken.detail)
    tx.connection.execute(sql("cancel_document"), values)
    slot = (taken.slot, taken.slot_seq, taken.displaced)
    tx.connection.execute(sql("add_retry_slot"), (document.seq, document.customer, *slot))
    tx.connection.execute(sql("forget_interim"), (tx.connection.array([document.seq]),))
    tx.count_state(before, document.priority, -1)
    tx.count_state("cancelled", document.priority, 1)
    tx.add_event(EventKind.CANCELLED, document.customer, document.seq)
    settle_batches(tx, [document.batch])
    settle_parts(tx, {document.seq: document.root})


def _take_from_queue(tx: Transaction, document: DocumentRow) -> Waiting | ends.Running:
    """Remove a pending document from the queue or from its worker; return the removed row.

    The row lock orders this and other decisions about the same document.
    """
    run, customer, number = tx.connection.execute, document.customer, document.seq
    for _ in range(_QUEUE_READS):
        row = run(sql("take_waiting"), (customer, number)).fetchone()
        if row is not None:
            waiting = Waiting(*row)
            tx.add_queue_event(Dropped(tx.now, customer, waiting.pipeline, 1, waiting.estimate))
            return waiting
        row = run(sql("take_delayed"), (number,)).fetchone()
        if row is not None:
            delayed = Waiting(*row)
            event = Dropped(tx.now, customer, delayed.pipeline, 0, 0.0, were_delayed=1)
            tx.add_queue_event(event)
            return delayed
        row = run(sql("take_claim"), (number,)).fetchone()
        if row is not None:
            running = ends.Running(*row)
            ends.settle_cancelled(tx, running)
            return running
    state = run(sql("state_of_document"), (number,)).get
    after(State(state or "done"), Action.CANCEL)  # it has ended meanwhile
    raise AssertionError(f"document {number} is pending and not in the queue")


def delete_document(tx: Transaction, id_: str, check: DocumentCheck | None = None) -> list[str]:
    """Delete a document, and cancel a pending one first; return the keys of its texts.

    A deleted document does not change and is not checked.
    """
    if tx.connection.execute(sql("find_deleted"), (id_,)).get is not None:
        return []
    document = find_document(tx, id_)
    run_check(tx, id_, check)
    texts = reads.known_texts(tx.connection, [id_])
    if not _delete_row(tx, id_, document):
        return []
    run = tx.connection.execute
    run(sql("bury_document"), (document.seq, id_, document.customer, tx.now))
    run(sql("delete_original"), (document.seq,))
    texts.update(key for (key,) in run(sql("take_results"), (document.seq,)).fetchall() if key)
    run(sql("delete_metadata_terms"), (document.seq,))
    run(sql("delete_job_end"), (document.seq,))
    run(sql("take_retry_slot"), (document.seq,))
    forget_document(tx.connection, id_, document.seq)
    tx.add_event(EventKind.DELETED, document.customer, document.seq)
    return sorted(texts)


def _delete_row(tx: Transaction, id_: str, document: DocumentRow) -> bool:
    """Delete the row of a document; False: another transaction has deleted it.

    On a server, a worker may end the document and a person may retry it until the row is gone.
    """
    run, state = tx.connection.execute, document.state
    while True:
        if state == State.WAITING:
            with suppress(InvalidTransition):  # it has ended meanwhile
                cancel_document(tx, id_)
            tx.write_events()  # before the deletion, so that webhooks get the document
        row = run(sql("delete_document"), (document.seq,)).fetchone()
        if row is not None:
            ended, priority = row
            tx.count_state(ended, priority, -1)
            return True
        state = run(sql("state_of_document"), (document.seq,)).get
        if state is None:
            return False


def retry_document(
    tx: Transaction, id_: str, password: str | None = None, check: DocumentCheck | None = None
) -> None:
    """Queue an ended document again, at its own place; a pending one does not change.

    A result stays until a new one replaces it.
    """
    document = find_document(tx, id_)
    is_pending = document.state == State.WAITING
    if not is_pending:
        after(State(document.state), Action.RETRY)
        _check_pending_cap(tx, document.customer)
    run_check(tx, id_, check)
    run = tx.connection.execute
    if is_pending or run(sql("retry_document"), (document.seq, password)).get is None:
        return
    retry_slot = run(sql("take_retry_slot"), (document.seq,)).fetchone()
    slot, slot_seq = tx.slot(document.priority, document.seq, urgent=bool(document.urgent))
    displaced = 0
    if retry_slot is not None and retry_slot[0] is not None:
        slot, slot_seq, displaced = retry_slot
    row = Waiting(
        document.customer,
        pipeline_of(document.pipeline),  # it starts over
        slot,
        slot_seq,
        document.seq,
        document.priority,
        document.urgent,
        displaced,
        document.estimate,
        document.submitted_at,
    )
    run(sql("insert_waiting"), row)
    tx.add_queue_event(arrived(tx.now, [row]))
    tx.count_state(document.state, document.priority, -1)
    tx.count_state("waiting", document.priority, 1)
    tx.add_event(EventKind.RETRIED, document.customer, document.seq)


def add_key(
    tx: Transaction, id_: str, sha256: str, owner: KeyOwner, expires: NotBefore | None
) -> None:
    role, customer, name = owner
    number = None if customer is None else find_customer(tx, customer)
    end = None if expires is None else expires.time(tx.now)
    values = (id_, role.value, number, name, sha256, tx.now, end)
    tx.connection.execute(sql("add_access_key"), values)
    tx.add_event(EventKind.KEY_ADDED, number or NOBODY, key=id_)


def revoke_key(tx: Transaction, id_: str) -> None:
    """Revoke a key; a revoked one does not change.

    A customer's submissions check its key behind the same lock, so none is accepted afterwards.
    """
    owner = tx.connection.execute(sql("owner_of_key"), (id_,)).get
    if owner is not None:
        lock_customers(tx, [owner])
    row = tx.connection.execute(sql("revoke_access_key"), (tx.now, id_)).fetchone()
    if row is not None:
        tx.add_event(EventKind.KEY_REVOKED, row[0] or NOBODY, key=id_)


def add_with_settings(tx: Transaction, name: str, settings: Mapping[str, Any]) -> bool:
    """Add a customer with these settings; False: it exists and does not change.

    A deleted customer begins anew.
    """
    tx.connection.execute(sql("unbury_customer"), (buried_name(name),))
    if add_customer(tx, name) is None:
        return False
    if settings:
        set_customer(tx, name, settings)
    return True


def set_customer(tx: Transaction, name: str, changes: Mapping[str, Any]) -> None:
    """Change some of the customer's settings; concurrent changes of other settings stay."""
    row = _lock(tx, name)
    before = _settings(tx, row)
    settings = before.changed(changes)
    account = None
    if settings.account is not None:
        account, weight = _account(tx, before, settings)
        settings = replace(settings, weight=weight)
    own = settings if account is None else replace(settings, weight=1.0)
    tx.connection.execute(sql("set_customer"), (rows.settings_text(own), account, row.id))
    _change_member(tx, row._replace(account=account), settings)
    tx.add_event(EventKind.CUSTOMER_SET, row.id, **settings.changes())


def pause_customer(tx: Transaction, name: str, *, paused: bool) -> None:
    """Pause or resume a customer; while it is paused, its documents are accepted and wait."""
    row = _lock(tx, name)
    if tx.connection.execute(sql("set_paused"), (int(paused), row.id)).get is None:
        return  # no change
    _change_member(tx, row._replace(paused=int(paused)), _settings(tx, row))
    kind = EventKind.CUSTOMER_PAUSED if paused else EventKind.CUSTOMER_RESUMED
    tx.add_event(kind, row.id)


def reset_customer(tx: Transaction, name: str) -> None:
    """Forget the count: the next document counts as the customer's first."""
    row = _lock(tx, name)
    tx.connection.execute(sql("reset_customer"), (row.id,))
    tx.add_queue_event(Reset(tx.now, row.id))
    tx.add_event(EventKind.CUSTOMER_RESET, row.id)


def delete_customer(tx: Transaction, name: str) -> bool:
    """Delete a customer with its keys and webhooks; False: it has documents.

    Submissions do not bring it back. Its events stay without its name and their data, and so do
    deliveries to webhooks for all customers; its usage stays as numbers.
    """
    row, run = _lock(tx, name), tx.connection.execute
    if run(sql("has_documents"), (row.id,)).get:
        return False
    for (webhook,) in run(sql("webhooks_of_customer"), (row.id,)).fetchall():
        run(sql("remove_deliveries"), (webhook,))
        run(sql("remove_webhook"), (webhook,))
    forget_customer(tx.connection, name)
    keys = run(sql("valid_keys_of_customer"), (row.id,)).fetchall()
    for statement in _OF_CUSTOMER:
        run(sql(statement), (row.id,))
    run(sql("bury_customer"), (buried_name(name), tx.now))
    for (key,) in keys:  # so that servers remove them from their caches
        tx.add_event(EventKind.KEY_REVOKED, NOBODY, key=key)
    tx.add_event(EventKind.CUSTOMER_DELETED, NOBODY)
    return True


def find_customer(tx: Transaction, name: str) -> int:
    customer: int | None = tx.connection.execute(sql("customer_id"), (name,)).get
    if customer is None:
        raise reads.unknown_customer(name)
    return customer


def _lock(tx: Transaction, name: str) -> rows.CustomerRow:
    row = tx.connection.execute(sql("lock_customer"), (name,)).fetchone()
    if row is None:
        raise reads.unknown_customer(name)
    return rows.CustomerRow(*row)


def _settings(tx: Transaction, row: rows.CustomerRow) -> CustomerSettings:
    """The settings with the weight of the account."""
    own = row.own_settings
    if row.account is None:
        return own
    return replace(own, weight=tx.connection.execute(sql("account_weight"), (row.account,)).get)


def _account(
    tx: Transaction, before: CustomerSettings, settings: CustomerSettings
) -> tuple[int, float]:
    """The shared account of these settings, added if it is new, and its weight.

    A customer that joins an account without a weight takes the account's weight.
    """
    row = tx.connection.execute(sql("find_account"), (settings.account,)).fetchone()
    if row is None:
        id_ = tx.connection.execute(sql("add_account"), (settings.account, settings.weight)).get
        return id_, settings.weight
    account, weight = row
    if settings.weight in (weight, before.weight):
        return account, weight
    tx.connection.execute(sql("set_weight"), (settings.weight, account))
    return account, settings.weight


def _change_member(tx: Transaction, row: rows.CustomerRow, settings: CustomerSettings) -> None:
    """Add an event with a customer's settings; shared accounts have negative numbers in it."""
    tx.add_queue_event(
        MemberChanged(
            tx.now,
            row.id,
            None if row.account is None else -row.account,
            bool(row.paused),
            settings.processing_cap,
            settings.weight,
            settings.reset_interval,
        )
    )


def find_document(tx: Transaction, id_: str) -> DocumentRow:
    row = tx.connection.execute(sql("find_document"), (id_,)).fetchone()
    if row is None:
        raise reads.unknown_document(id_)
    return DocumentRow(*row)


def run_check(tx: Transaction, id_: str, check: DocumentCheck | None) -> None:
    """Run the check on the document as this transaction sees it."""
    if check is not None:
        check(reads.document(tx.connection, tx.rules, id_))


def _check_pending_cap(tx: Transaction, customer: int) -> None:
    (row,) = lock_customers(tx, [customer])
    cap = row.own_settings.pending_cap
    if cap is None:
        return
    member = tx.load_queue({customer}).queue.member(customer)
    pending = member.waiting + member.processing
    if pending >= cap:
        raise PendingCapReached(
            Message(
                "customer {name} is at its cap of {cap} pending documents (pending: {pending}); "
                "retry when some are done",
                name=repr(row.name),
                cap=cap,
                pending=pending,
            )
        )

"""Decisions of people about documents, customers and keys: cancel, retry, delete, pause, reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairlead.errors import Message, PendingCapReached
from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import DocumentCheck, EventKind
from fairlead.model.states import Action, State, after
from fairlead.storage.sql import customer_queue, fair_accounts, reads, rows
from fairlead.storage.sql.accept import add_customer
from fairlead.storage.sql.queries import sql
from fairlead.storage.sql.transaction import NOBODY, Transaction
from fairlead.storage.sql.webhook_rows import forget_document


class _DocumentRow(NamedTuple):
    """A document's row as a decision needs it."""

    seq: int
    customer: int
    state: State
    estimate: float
    started_at: float | None


def cancel_document(tx: Transaction, id_: str, check: DocumentCheck | None = None) -> None:
    """Cancel a pending document; one that is cancelled already stays so."""
    document = _find(tx, id_)
    is_so = document.state is State.CANCELLED
    if not is_so:
        after(document.state, Action.CANCEL)
    _run_check(tx, id_, check)
    if is_so:
        return
    tx.connection.execute(sql("cancel_document"), (tx.now, document.seq))
    was_waiting = document.state is State.WAITING
    worked = 0.0 if document.started_at is None else max(0.0, tx.now - document.started_at)
    customer_queue.refresh(
        tx, document.customer, waiting=-was_waiting, processing=was_waiting - 1, work=worked
    )
    if document.started_at is None:
        fair_accounts.give_back(tx, document.customer, document.estimate)
    else:
        fair_accounts.correct(tx, document.customer, estimated=document.estimate, actual=worked)
    tx.add_event(EventKind.CANCELLED, document.customer, document.seq)


def delete_document(tx: Transaction, id_: str, check: DocumentCheck | None = None) -> list[str]:
    """Delete a document, a pending one after it was cancelled; the keys of its texts.

    One that was deleted before stays so, unchecked.
    """
    if tx.connection.execute(sql("find_deleted"), (id_,)).get is not None:
        return []
    document = _find(tx, id_)
    _run_check(tx, id_, check)
    if document.state.is_pending:
        cancel_document(tx, id_)
    texts = reads.known_texts(tx.connection, [id_])
    tx.connection.execute(sql("bury_document"), (document.seq, tx.now))
    tx.connection.execute(sql("forget_texts"), (document.seq,))
    tx.connection.execute(sql("forget_original"), (document.seq,))
    tx.connection.execute(sql("delete_document"), (document.seq,))
    forget_document(tx.connection, id_)
    tx.add_event(EventKind.DELETED, document.customer, document.seq)
    return sorted(texts)


def add_key(tx: Transaction, id_: str, sha256: str, customer: str | None) -> None:
    number = None if customer is None else find_customer(tx, customer)
    row = (id_, number, sha256, tx.now)
    tx.connection.execute(sql("add_access_key"), row)
    tx.add_event(EventKind.KEY_ADDED, number or NOBODY, key=id_)


def revoke_key(tx: Transaction, id_: str) -> None:
    """Let a key open nothing any more; one that was revoked before stays so."""
    row = tx.connection.execute(sql("revoke_access_key"), (tx.now, id_)).fetchone()
    if row is not None:
        tx.add_event(EventKind.KEY_REVOKED, row[0] or NOBODY, key=id_)


def retry_document(tx: Transaction, id_: str, check: DocumentCheck | None = None) -> None:
    """Queue a failed or cancelled document once more; a pending one stays."""
    document = _find(tx, id_)
    is_so = document.state.is_pending
    if not is_so:
        after(document.state, Action.RETRIED)
        _check_room(tx, document.customer)
    _run_check(tx, id_, check)
    if is_so:
        return
    tx.connection.execute(sql("retry_document"), (document.seq,))
    _place_again(tx, document)
    customer_queue.refresh(tx, document.customer, waiting=1)
    tx.add_event(EventKind.RETRIED, document.customer, document.seq)


def add_with_settings(tx: Transaction, name: str, settings: Mapping[str, Any]) -> bool:
    """Add a customer with these settings; False: it was there and stays so."""
    if tx.connection.execute(sql("customer_id"), (name,)).get is not None:
        return False
    add_customer(tx, name)
    if settings:
        set_customer(tx, name, settings)
    return True


def set_customer(tx: Transaction, name: str, changes: Mapping[str, Any]) -> None:
    """Change some of the customer's settings; those that others have set meanwhile stay."""
    customer = find_customer(tx, name)
    settings = reads.customer(tx.connection, name).settings.changed(changes)
    fair_accounts.lift(tx, customer)  # a wider cap frees what it held back
    values = (*rows.own_settings(settings), customer)
    tx.connection.execute(rows.SET_CUSTOMER, values)
    _set_account(tx, customer, settings)
    _changed(tx, customer, EventKind.CUSTOMER_SET, **settings.changes())


def pause_customer(tx: Transaction, name: str, *, paused: bool) -> None:
    """Pause or resume: a paused customer's documents wait, and are accepted all the same."""
    customer = find_customer(tx, name)
    if tx.connection.execute(sql("set_paused"), (paused, customer)).get is None:
        return  # it was so before: nothing to tell
    if not paused:
        fair_accounts.lift(tx, customer)
    _changed(tx, customer, EventKind.CUSTOMER_PAUSED if paused else EventKind.CUSTOMER_RESUMED)


def reset_customer(tx: Transaction, name: str) -> None:
    """Forget the count: the next document is checked as the first ever."""
    customer = find_customer(tx, name)
    tx.connection.execute(sql("reset_customer"), (customer,))
    fair_accounts.forgive(tx, customer)
    _changed(tx, customer, EventKind.CUSTOMER_RESET)


def find_customer(tx: Transaction, name: str) -> int:
    customer: int | None = tx.connection.execute(sql("customer_id"), (name,)).get
    if customer is None:
        raise reads.unknown_customer(name)
    return customer


def _place_again(tx: Transaction, document: _DocumentRow) -> None:
    """Its own place by the classic rule; by the fair one a new place, for the work comes anew."""
    row = tx.connection.execute(sql("place_of_retried"), (document.seq,)).fetchone()
    assert row is not None  # noqa: S101 (this transaction has read it)
    policy, classic_count, interval, thresholds, lift = row
    own = (interval, rows.thresholds_from(thresholds))
    if tx.is_fair:
        fair = tx.rules.fair(*own)
        (placed,) = fair_accounts.charge(tx, fair, document.customer, [document.estimate])
        place = (placed.count, placed.priority, fair.label, placed.tag - lift, classic_count)
    else:
        classic = tx.rules.classic(*own)
        if policy == classic.label:
            return
        level = classic.priority_of(classic_count)
        place = (classic_count, level, classic.label, float(level), None)
    tx.connection.execute(sql("place_document"), (document.seq, *place))


def _set_account(tx: Transaction, customer: int, settings: CustomerSettings) -> None:
    """Move the customer to the account of this name, and set the account's weight."""
    row = tx.connection.execute(sql("account_settings"), (customer,)).fetchone()
    assert row is not None  # noqa: S101 (every customer has one)
    before, name, weight = row
    wanted: int | None = round(settings.weight * rows.THOUSANDTHS)
    account = before
    if settings.account != name:
        account, is_new = _account(tx, settings.account)
        tx.connection.execute(sql("join_account"), (account, customer))
        tx.connection.execute(sql("carry_tags"), (before, account))
        tx.connection.execute(sql("recount_accounts"), (before, account))
        if wanted == weight and not is_new:
            wanted = None  # it was the old account's: the new one has its own
    if wanted is not None:
        tx.connection.execute(sql("set_weight"), (wanted, account))
    tx.connection.execute(sql("recount_backlog"))


def _account(tx: Transaction, name: str | None) -> tuple[int, bool]:
    """The account of this name, made where there is none; whether it is new."""
    known: int | None = None
    if name is not None:
        known = tx.connection.execute(sql("find_account"), (name,)).get
    if known is not None:
        return known, False
    return tx.connection.execute(sql("add_account"), (name,)).get, True


def _changed(tx: Transaction, customer: int, kind: EventKind, **data: Any) -> None:
    customer_queue.refresh(tx, customer)
    tx.add_event(kind, customer, **data)


def _find(tx: Transaction, id_: str) -> _DocumentRow:
    row = tx.connection.execute(sql("find_document"), (id_,)).fetchone()
    if row is None:
        raise reads.unknown_document(id_)
    seq, customer, state, *others = row
    return _DocumentRow(seq, customer, State(state), *others)


def _run_check(tx: Transaction, id_: str, check: DocumentCheck | None) -> None:
    """Run the check on the document as this transaction sees it."""
    if check is not None:
        check(reads.document(tx.connection, id_))


def _check_room(tx: Transaction, customer: int) -> None:
    row = tx.connection.execute(sql("pending_room"), (customer,)).fetchone()
    assert row is not None  # noqa: S101 (this transaction has read its document)
    cap, pending, name = row
    if cap is not None and pending >= cap:
        raise PendingCapReached(
            Message(
                "customer {name} is at its cap of {cap} pending documents (pending: {pending}); "
                "retry when some are done",
                name=repr(name),
                cap=cap,
                pending=pending,
            )
        )

"""Webhooks and their deliveries: who is told, what is due, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from fairlead.errors import InvalidWebhook, Message, UnknownDelivery, UnknownWebhook
from fairlead.model.documents import EventKind, Saved
from fairlead.model.webhooks import (
    LEASE,
    MOST_CHARACTERS,
    MOST_OF_A_CUSTOMER,
    Delivery,
    Sending,
    Webhook,
    WebhookRecord,
    WebhookResponse,
    is_given_up,
    next_delay,
)
from fairlead.storage.sql.actions import find_customer
from fairlead.storage.sql.queries import Connection, sql
from fairlead.storage.sql.rows import DELIVERY, WEBHOOK
from fairlead.storage.sql.transaction import NOBODY, Transaction
from fairlead.storage.sql.webhook_rows import add_test, lock_webhook, refresh_webhook

T = TypeVar("T")

_FORGET_AT_ONCE = 1000
_AFTER_ALL = 2**62


class Write(Protocol):
    """Makes one change in a transaction."""

    def __call__(
        self, action: Callable[[Transaction], T], *, durable: bool = True, by: str | None = None
    ) -> T:
        """Run the action; return when it is committed. `by` is who decided it."""
        ...


class Outbox:
    """Every change is one transaction of the store."""

    def __init__(
        self, write: Write, reading: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self._write = write
        self._reading = reading

    # --- webhooks ---

    def add(self, new: WebhookRecord, *, by: str | None = None) -> Webhook:
        """Keep a webhook; it is told of what happens from now on."""
        self._write(lambda tx: _add(tx, new), by=by)
        return self.webhook(new.id)

    def webhook(self, id_: str) -> Webhook:
        with self._reading() as connection:
            return _webhook(connection, id_)

    def webhooks(self, customer: str | None = None) -> list[Webhook]:
        """All webhooks, or those of a customer, oldest first."""
        of_one = "" if customer is None else " WHERE c.name = ?"
        query, values = WEBHOOK.select + of_one + " ORDER BY w.id", (customer,)[: bool(of_one)]
        with self._reading() as connection:
            return [WEBHOOK.read(row) for row in connection.execute(query, values)]

    def set(
        self,
        id_: str,
        *,
        url: str | None = None,
        kinds: tuple[str, ...] | None = None,
        enabled: bool | None = None,
        by: str | None = None,
    ) -> Webhook:
        """Change a webhook; None: as it is. Enabling it forgets its failures."""
        self._write(lambda tx: _set(tx, id_, url, kinds, enabled), by=by)
        return self.webhook(id_)

    def remove(self, id_: str, *, by: str | None = None) -> None:
        """Forget a webhook and its deliveries; one that is not there stays so."""
        self._write(lambda tx: _remove(tx, id_), by=by)

    # --- deliveries ---

    def test(self, id_: str) -> Delivery:
        """Make a delivery that tells of nothing, due now."""
        return self.delivery(self._write(lambda tx: _test(tx, id_)))

    def resend(self, id_: str) -> Delivery:
        """Make a delivery due now, with all its attempts and under its old id.

        Not where its webhook is disabled: it would wait without a word.
        """
        self._write(lambda tx: _resend(tx, id_))
        return self.delivery(id_)

    def delivery(self, id_: str) -> Delivery:
        with self._reading() as connection:
            return _delivery(connection, id_)

    def deliveries(
        self, webhook: str, *, before: str | None = None, limit: int = 100
    ) -> list[Delivery]:
        """Deliveries of a webhook, newest first; `before` is the last id of the page before."""
        number = _AFTER_ALL if before is None else _number_in(before)
        query = DELIVERY.select + " WHERE webhook = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        with self._reading() as connection:
            found = connection.execute(query, (webhook, number, limit))
            return [DELIVERY.read(row) for row in found]

    # --- sending ---

    def next_at(self) -> float | None:
        """When the next attempt is due, or the claim of one ends; None: nothing is to be sent."""
        with self._reading() as connection:
            found: float | None = connection.execute(sql("next_delivery_at")).get
            return found

    def claim(
        self, *, webhooks: Collection[str] = (), customers: Collection[str] = ()
    ) -> Sending | None:
        """The next attempt that is due, but for those of these webhooks and customers.

        It is held for as long as any attempt may take; of one that nobody settled, another
        attempt comes after that. So a crash repeats a delivery and never loses it.
        """
        busy = (list(webhooks), list(customers))
        return self._write(lambda tx: _claim(tx, *busy), durable=False)

    def settle(self, sending: Sending, answer: WebhookResponse, *, jitter: float) -> Saved:
        """Save what an attempt came to; an old one changes nothing. `jitter`: by lot, 0 to 1."""
        return self._write(lambda tx: _settle(tx, sending, answer, jitter))

    def forget(self, before: float) -> int:
        """Remove some of the deliveries settled before a moment; return how many."""
        values = (before, _FORGET_AT_ONCE)

        def forget(tx: Transaction) -> int:
            return len(tx.connection.execute(sql("forget_deliveries"), values).fetchall())

        return self._write(forget)


def _add(tx: Transaction, new: WebhookRecord) -> None:
    customer = None if new.customer is None else find_customer(tx, new.customer)
    number: int = tx.connection.execute(sql("count_webhooks"), (customer,)).get
    if number >= MOST_OF_A_CUSTOMER:
        raise InvalidWebhook(
            Message(
                "customer {name} has {number} webhooks; at most {most} are allowed; "
                "delete one first",
                name="*" if new.customer is None else repr(new.customer),
                number=number,
                most=MOST_OF_A_CUSTOMER,
            )
        )
    values = (new.id, customer, new.url, json.dumps(new.kinds), new.secret, tx.now)
    tx.connection.execute(sql("add_webhook"), values)
    tx.add_event(EventKind.WEBHOOK_ADDED, customer or NOBODY, webhook=new.id)


def _set(
    tx: Transaction,
    id_: str,
    url: str | None,
    kinds: tuple[str, ...] | None,
    enabled: bool | None,  # noqa: FBT001 (handed on by name)
) -> None:
    known = _webhook(tx.connection, id_)
    asked = known.kinds if kinds is None else kinds
    values = (known.url if url is None else url, json.dumps(asked), id_)
    tx.connection.execute(sql("set_webhook"), values)
    if enabled is not None and enabled != known.enabled:
        because = None if enabled else "by hand"
        tx.connection.execute(sql("enable_webhook"), (int(enabled), because, id_))
    customer = _owner(tx, known.customer)
    is_on = known.enabled if enabled is None else enabled
    tx.add_event(EventKind.WEBHOOK_SET, customer, webhook=id_, enabled=is_on)


def _remove(tx: Transaction, id_: str) -> None:
    tx.connection.execute(sql("remove_deliveries"), (id_,))
    customer: int | None = tx.connection.execute(sql("remove_webhook"), (id_,)).get
    if customer is not None:
        tx.add_event(EventKind.WEBHOOK_REMOVED, customer, webhook=id_)


def _test(tx: Transaction, id_: str) -> str:
    _check_enabled(tx.connection, id_)
    return f"msg_{id_}_{add_test(tx.connection, tx.now, id_)}"


def _check_enabled(connection: Connection, id_: str) -> None:
    if not _webhook(connection, id_).enabled:
        raise InvalidWebhook(Message("webhook {id} is disabled; enable it first", id=id_))


def _resend(tx: Transaction, id_: str) -> None:
    found = _delivery(tx.connection, id_)
    _check_enabled(tx.connection, found.webhook)
    tx.connection.execute(sql("resend_delivery"), (tx.now, _number_in(id_)))
    refresh_webhook(tx.connection, found.webhook)


def _claim(tx: Transaction, webhooks: list[str], customers: list[str]) -> Sending | None:
    busy = (tx.connection.array(webhooks), tx.connection.array(customers))
    webhook: str | None = tx.connection.execute(sql("webhook_due"), (tx.now, *busy)).get
    if webhook is None:
        return None
    lock_webhook(tx.connection, webhook)
    number: int | None = tx.connection.execute(sql("first_delivery_due"), (webhook, tx.now)).get
    if number is not None:  # else another process was quicker
        tx.connection.execute(sql("claim_delivery"), (tx.now + LEASE, number))
    refresh_webhook(tx.connection, webhook)
    if number is None:
        return None
    row = tx.connection.execute(sql("sending"), (number,)).fetchone()
    assert row is not None  # noqa: S101 (claimed in this transaction)
    return Sending(*row)


def _settle(tx: Transaction, sending: Sending, answer: WebhookResponse, jitter: float) -> Saved:
    held = (_number_in(sending.id), sending.fence)
    row = tx.connection.execute(sql("held_delivery"), held).fetchone()
    if row is None:
        return Saved.STALE
    attempts, body = row
    # An answer to what a deleted document's delivery tells no more may repeat it.
    text = answer.text[:MOST_CHARACTERS] if body == sending.body else None
    delay = None if answer.is_good or answer.is_gone else next_delay(attempts, jitter)
    due_at = None if delay is None else tx.now + delay
    said = (answer.code, text, answer.error)
    values = (due_at, int(answer.is_good), tx.now, *said, held[0])
    tx.connection.execute(sql("settle_delivery"), values)
    failing = (sending.webhook, int(answer.is_good), tx.now)
    since: float | None = tx.connection.execute(sql("note_answer"), failing).get
    refresh_webhook(tx.connection, sending.webhook)
    if answer.is_gone:
        _disable(tx, sending, "the receiver answered 410 Gone")
    elif delay is None and is_given_up(since, now=tx.now):
        _disable(tx, sending, "all attempts of more than a day have failed")
    return Saved.SAVED


def _disable(tx: Transaction, sending: Sending, because: str) -> None:
    query, values = sql("disable_webhook"), (because, sending.webhook)
    if tx.connection.execute(query, values).get is not None:
        customer = _owner(tx, sending.customer)
        tx.add_event(EventKind.WEBHOOK_DISABLED, customer, webhook=sending.webhook, because=because)


def _owner(tx: Transaction, customer: str | None) -> int:
    """The number of a webhook's customer, for an event; NOBODY's where it is of all."""
    return find_customer(tx, customer) if customer else NOBODY


def _webhook(connection: Connection, id_: str) -> Webhook:
    row = connection.execute(WEBHOOK.select + " WHERE w.id = ?", (id_,)).fetchone()
    if row is None:
        raise UnknownWebhook(Message("no webhook has the id {id}; list the webhooks", id=repr(id_)))
    return WEBHOOK.read(row)


def _delivery(connection: Connection, id_: str) -> Delivery:
    query = DELIVERY.select + " WHERE seq = ?"
    row = connection.execute(query, (_number_in(id_),)).fetchone()
    if row is None or row[0] != id_:
        raise UnknownDelivery(
            Message("no delivery has the id {id}; list the webhook's deliveries", id=repr(id_))
        )
    return DELIVERY.read(row)


def _number_in(id_: str) -> int:
    """The number of a delivery in its id; 0, which none has, where it is no such id."""
    number = id_.rpartition("_")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0

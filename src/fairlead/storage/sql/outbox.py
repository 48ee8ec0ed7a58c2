"""The outbox: webhooks, their due deliveries and the results of attempts."""

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
        """Run the action; return when it is committed. `by` is the actor."""
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
        """Add a webhook; it gets the events from now on."""
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
        """Change a webhook; None: no change. Enabling it forgets its failures."""
        self._write(lambda tx: _set(tx, id_, url, kinds, enabled), by=by)
        return self.webhook(id_)

    def remove(self, id_: str, *, by: str | None = None) -> None:
        """Delete a webhook and its deliveries; an unknown id is ignored."""
        self._write(lambda tx: _remove(tx, id_), by=by)

    # --- deliveries ---

    def test(self, id_: str) -> Delivery:
        """Add a test delivery, due now."""
        return self.delivery(self._write(lambda tx: _test(tx, id_)))

    def resend(self, id_: str) -> Delivery:
        """Make a delivery due now, under its old id and with all attempts again.

        A disabled webhook raises InvalidWebhook: the delivery would never be sent.
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
            selected = connection.execute(query, (webhook, number, limit))
            return [DELIVERY.read(row) for row in selected]

    # --- sending ---

    def next_at(self) -> float | None:
        """When the next attempt is due or the next lease ends; None: there are no deliveries."""
        with self._reading() as connection:
            due_at: float | None = connection.execute(sql("next_delivery_at")).get
            return due_at

    def claim(
        self, *, webhooks: Collection[str] = (), customers: Collection[str] = ()
    ) -> Sending | None:
        """Claim the next attempt that is due, except for these webhooks and customers.

        The lease is longer than any attempt. A delivery that is not settled is due again after it,
        so a crash repeats a delivery and never loses it.
        """
        busy = (list(webhooks), list(customers))
        return self._write(lambda tx: _claim(tx, *busy), durable=False)

    def settle(self, sending: Sending, response: WebhookResponse, *, jitter: float) -> Saved:
        """Save the result of an attempt; an old one changes nothing. `jitter`: random, 0 to 1."""
        return self._write(lambda tx: _settle(tx, sending, response, jitter))

    def forget(self, before: float) -> int:
        """Delete some of the deliveries settled before a time; return how many."""
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
    enabled: bool | None,  # noqa: FBT001 (a keyword of `set`)
) -> None:
    before = _webhook(tx.connection, id_)
    url = before.url if url is None else url
    kinds = before.kinds if kinds is None else kinds
    is_enabled = before.enabled if enabled is None else enabled
    tx.connection.execute(sql("set_webhook"), (url, json.dumps(kinds), id_))
    if is_enabled != before.enabled:
        because = None if is_enabled else "by hand"
        tx.connection.execute(sql("enable_webhook"), (int(is_enabled), because, id_))
    customer = _owner(tx, before.customer)
    tx.add_event(EventKind.WEBHOOK_SET, customer, webhook=id_, enabled=is_enabled)


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
    delivery = _delivery(tx.connection, id_)
    _check_enabled(tx.connection, delivery.webhook)
    tx.connection.execute(sql("resend_delivery"), (tx.now, _number_in(id_)))
    refresh_webhook(tx.connection, delivery.webhook)


def _claim(tx: Transaction, webhooks: list[str], customers: list[str]) -> Sending | None:
    busy = (tx.connection.array(webhooks), tx.connection.array(customers))
    webhook: str | None = tx.connection.execute(sql("webhook_due"), (tx.now, *busy)).get
    if webhook is None:
        return None
    lock_webhook(tx.connection, webhook)
    number: int | None = tx.connection.execute(sql("first_delivery_due"), (webhook, tx.now)).get
    if number is not None:  # else another process claimed it first
        tx.connection.execute(sql("claim_delivery"), (tx.now + LEASE, number))
    refresh_webhook(tx.connection, webhook)
    if number is None:
        return None
    row = tx.connection.execute(sql("sending"), (number,)).fetchone()
    assert row is not None  # noqa: S101 (claimed in this transaction)
    return Sending(*row)


def _settle(tx: Transaction, sending: Sending, response: WebhookResponse, jitter: float) -> Saved:
    number = _number_in(sending.id)
    row = tx.connection.execute(sql("held_delivery"), (number, sending.fence)).fetchone()
    if row is None:
        return Saved.STALE
    attempts, body = row
    # If the document was deleted meanwhile, the response may repeat its contents.
    text = response.text[:MOST_CHARACTERS] if body == sending.body else None
    delay = None if response.is_good or response.is_gone else next_delay(attempts, jitter)
    due_at = None if delay is None else tx.now + delay
    is_good = int(response.is_good)
    values = (due_at, is_good, tx.now, response.code, text, response.error, number)
    tx.connection.execute(sql("settle_delivery"), values)
    failing_since: float | None = tx.connection.execute(
        sql("note_answer"), (sending.webhook, is_good, tx.now)
    ).get
    refresh_webhook(tx.connection, sending.webhook)
    if response.is_gone:
        _disable(tx, sending, "the receiver answered 410 Gone")
    elif delay is None and is_given_up(failing_since, now=tx.now):
        _disable(tx, sending, "all attempts of more than a day have failed")
    return Saved.SAVED


def _disable(tx: Transaction, sending: Sending, because: str) -> None:
    query, values = sql("disable_webhook"), (because, sending.webhook)
    if tx.connection.execute(query, values).get is not None:
        customer = _owner(tx, sending.customer)
        tx.add_event(EventKind.WEBHOOK_DISABLED, customer, webhook=sending.webhook, because=because)


def _owner(tx: Transaction, customer: str | None) -> int:
    """The number of a webhook's customer, for an event; NOBODY for a webhook of all customers."""
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
    """The number of a delivery in its id; 0, which no delivery has, if the id is invalid."""
    number = id_.rpartition("_")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
